"""The exact processes of few rows, which members of low rank tend to, as more members.

    member(x) = Σᵢ cᵢ k(x, xᵢ),        (K + α/w) c = y of all rows xᵢ

Where rows are so few that a model may remember all of them, the kernels that features were learned
for can be had whole: a CPD of a term for each row.  They see all products of inputs and forget no
row; members of low rank see the products that held-out rows asked for.  They err in different
ways, so a mean of both is better than either, and held-out rows say how much of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from polyadic.search.learned import LearnedFeatures
from polyadic.search.near import Beside, NearPart, RowSum, fits

# What is thought of the share of the processes before held-out rows are asked, its mean and its
# spread.  These rows chose the other members, so they are not believed too soon.
_SHARE, _DOUBT = 0.5, 0.2


def share_processes(parts: Sequence[NearPart], ways: Sequence[LearnedFeatures]) -> Beside | None:
    """Return the process of each way to see the inputs, all with the same share.

    None where no more than one input takes part: there the members are the process.

    Parameters
    ----------
    parts : sequence of NearPart
        Of each group of members; what is remembered are targets.
    ways : sequence of LearnedFeatures
        Their kernels.
    """
    sums = [
        RowSum(each, each.layout, each.alpha)
        for each in ways
        if len(each.layout.core_sizes) > 1 and fits(each.layout, parts[0].known)
    ]
    if not sums:
        return None
    said = [np.mean([each.say(part) for each in sums], axis=0) for part in parts]
    rest, beside = (
        np.concatenate([p.judge(response) for p, response in zip(parts, responses, strict=True)])
        for responses in ([part.said for part in parts], said)
    )
    # With normal errors, of the variance that the mean of both has, the likely share is normal.
    moved, both = rest - beside, (1 - _SHARE) * rest + _SHARE * beside
    weight = np.concatenate([part.weight for part in parts])[:, None]
    variance = float((weight * both**2).mean())
    if variance == 0:
        return None
    gain = float((weight * rest * moved).sum()) / variance + _SHARE / _DOUBT**2
    curvature = float((weight * moved**2).sum()) / variance + 1 / _DOUBT**2
    share = float(np.clip(gain / curvature, 0.0, 1.0))
    return Beside(tuple(replace(each, share=share / len(sums)) for each in sums), 1 - share)
