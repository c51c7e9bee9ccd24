"""How large weights and moments can be after a step of AdamW: whether one can overflow is known before it is taken.

A bound from a few numbers costs nothing, and holds for all steps that people take. Where it does not, the step has to
be tried and looked at.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from muster.sessions.seam import Adam

__all__ = ["Reach"]

_ROOM = 8.0
"""How far below the largest number of a type a bound stays, for what is rounded on the way."""
_LEAST_EPS = 1e-30  # a smaller one may be 0 in float32, and what is divided by it no number
_LEAST_MOMENT = 1e-18  # squares of smaller gradients may be 0 in float32, and so may their norm


@dataclass(frozen=True, slots=True)
class Reach:
    """Bounds of what an optimizer holds.

    Attributes:
        weight: no weight is larger, whatever its sign.
        moment: no first moment is larger, and no gradient of the last step.
    """

    weight: float
    moment: float

    def after(self, norm: float, params: Adam) -> Reach:
        """Return the bounds after a step.

        Args:
            norm: of its gradients; finite.
            params: of the step, which `adam.checked` has seen.
        """
        moment = max(self.moment, norm, _LEAST_MOMENT)  # the new one lies between the old one and the gradient
        if params.eps < _LEAST_EPS:
            return Reach(math.inf, moment)
        rate = max(1.0, params.learning_rate / (1 - params.beta1))  # the correction of the first step is the largest
        change = rate * max(1.0, moment / params.eps)
        decay = max(1.0, params.learning_rate * params.weight_decay - 1)  # without its sign, 1 - x is at most this
        return Reach(self.weight * decay + change, moment)

    def fits(self, largest: float) -> bool:
        """Tell whether all numbers of a step stay below the largest of a type, squares of gradients among them."""
        return max(self.weight, self.moment**2) < largest / _ROOM

    @property
    def is_finite(self) -> bool:
        """Whether what was measured is all numbers."""
        return math.isfinite(self.weight) and math.isfinite(self.moment)
