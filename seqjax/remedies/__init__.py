"""Remedies for gradients that vanish or explode, as penalties of a training and as preparations for one."""

from seqjax.remedies.flossing import FlossHistory, floss, floss_first, flossing
from seqjax.remedies.omega import omega, soft_constraint
