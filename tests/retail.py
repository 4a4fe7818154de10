"""A small shop: made-up invoices in the form in which shops export them."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

N_CUSTOMERS, N_PRODUCTS, N_INVOICES = 300, 400, 1_500
HEADER = "InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country\n"


def write_retail(path: Path, seed: int = 0) -> Path:
    """Write invoices: one line per product, all lines of an invoice at one minute.

    Like the exports of real shops it has lines without a customer, cancellations with negative quantities,
    ids written as floats, dates with the month first, customers who buy products again, and descriptions
    that are not UTF-8.
    """
    draw = np.random.default_rng(seed)
    popularity = 1 / (5 + np.arange(N_PRODUCTS)) ** 0.8
    taste = draw.integers(8, size=N_CUSTOMERS)
    kind = draw.integers(8, size=N_PRODUCTS)
    when = datetime(2010, 12, 1, 8, 26)
    bought: dict[int, list[int]] = {}
    lines = [HEADER]
    for invoice in range(536365, 536365 + N_INVOICES):
        when += timedelta(minutes=int(draw.integers(5, 600)))
        customer = int(draw.integers(N_CUSTOMERS))
        weight = popularity * np.where(kind == taste[customer], 12.0, 1.0)
        products = draw.choice(N_PRODUCTS, 1 + int(draw.integers(7)), replace=False, p=weight / weight.sum())
        again = [one for one in bought.get(customer, []) if draw.random() < 0.15 and one not in products]
        bought.setdefault(customer, []).extend(map(int, products))
        who = "" if draw.random() < 0.1 else f"{12346 + customer}.0"
        is_cancelled = draw.random() < 0.03
        for product in [*map(int, products), *dict.fromkeys(again)]:
            quantity = int(draw.integers(1, 13)) * (-1 if is_cancelled else 1)
            number, code = f"{'C' if is_cancelled else ''}{invoice}", f"{20000 + product}{'AB'[product % 2]}"
            date = f"{when.month}/{when.day}/{when.year} {when.hour}:{when.minute:02}"
            lines.append(f"{number},{code},MUG \u00a3{product},{quantity},{date},2.55,{who},United Kingdom\n")
    path.write_bytes("".join(lines).encode("latin1"))
    return path
