"What an examination found: as text, as a table, as JSON, as an assertion."

import html
import json
from dataclasses import dataclass
from typing import NamedTuple

OK, FAULT, NOTE, SKIPPED, ERROR, ALLOWED = "ok", "FAULT", "note", "not checked", "error", "allowed"


class Finding(NamedTuple):
    check: str
    verdict: str
    evidence: str
    cause: str = ""


@dataclass
class Report:
    model: str
    findings: list[Finding]
    seconds: float = 0.0

    @property
    def faults(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.verdict in (FAULT, ERROR)]

    def check(self) -> None:
        "AssertionError with the report if there is a fault: a test in one line."
        assert not self.faults, str(self)

    @property
    def title(self) -> str:
        return f"{self.model}: {len(self.faults)} fault(s), {self.seconds:.1f} seconds"

    def __str__(self) -> str:
        lines = [self.title]
        for check, verdict, evidence, cause in self.findings:
            lines.append(f"  {verdict:<11}  {check:<24} {evidence}")
            lines += [f"{'':39}likely: {cause}"] * bool(cause)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        "A table of what needs a look; the rest is folded."
        rows = ["", ""]
        for check, verdict, *words in self.findings:
            cells = "</td><td>".join(map(html.escape, [verdict, check, *words]))
            rows[verdict in (OK, SKIPPED)] += f"<tr><td>{cells}</td></tr>"
        return (
            f"<p>{self.title}</p><table>{rows[0]}</table><details>"
            f"<summary>What is ok or not checked</summary><table>{rows[1]}</table></details>"
        )

    def to_json(self) -> str:
        return json.dumps(
            {
                "model": self.model,
                "faults": len(self.faults),
                "findings": [finding._asdict() for finding in self.findings],
                "seconds": round(self.seconds, 1),
            },
            indent=1,
        )
