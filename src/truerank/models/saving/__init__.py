"""Fitted models as files: named arrays and a JSON header, no pickle."""
