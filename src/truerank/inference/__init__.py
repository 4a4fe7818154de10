"""Statistical inference for metrics: intervals over users, intervals of estimates, identification bounds."""
