"""The workshop's ten patients: small Transformers, each with one fault that was really made;
probes, hints and a verdict. Whoever wants to heal them reads this folder afterwards."""

from .page import chart, hint, probe, round_of_the_ward, verdict
from .patients import patient
from .probes import PROBES

__all__ = ["PROBES", "chart", "hint", "patient", "probe", "round_of_the_ward", "verdict"]
