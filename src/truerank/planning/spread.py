"""What an estimate varies by and is off by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from truerank.core.uncertainty import Target


@dataclass(frozen=True)
class Spread:
    """Variance of one user's value, in parts, and how far its mean is off.

    Parameters
    ----------
    items : the mean over users of the variance over samples of items
    users : the variance over users of the mean over samples
    bias : mean minus exact value
    """

    items: float
    users: float
    bias: float

    def noise(self, n_users: int, *, n_test_users: int, target: Target, level: float) -> float:
        r"""Return the half-width that the noise alone gives, by the normal law.

        .. math:: z \sqrt{\frac{V_\text{items}}{n} + \frac{V_\text{users}}{n}
                  \Big(1 - \frac{n}{N}\Big)}

        for n of N test users; the last factor is 1 for a population.

        Examples
        --------
        >>> spread = Spread(items=0.0, users=0.09, bias=0.0)
        >>> round(spread.noise(900, n_test_users=900, target="population", level=0.95), 4)
        0.0196
        >>> spread.noise(900, n_test_users=900, target="test-users", level=0.95)  # all of them: known
        0.0
        """
        left = 1.0 if target == "population" else max(1 - n_users / n_test_users, 0.0)
        return float(ndtri((1 + level) / 2) * np.sqrt((self.items + self.users * left) / n_users))
