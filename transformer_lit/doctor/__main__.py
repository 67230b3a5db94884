"""python -m transformer_lit.doctor my_case.py [--json]: examine what the file's `report()` returns.

Exit status 1 if there is a fault, 2 if the file can't be used."""

import argparse
import runpy
import sys
from pathlib import Path


def main(case: str | Path, json: bool = False) -> int:
    "Print the report of a file; 1 if there is a fault. ValueError if it has no `report`."
    sys.path.insert(0, str(Path(case).parent))
    names = runpy.run_path(str(case))
    report = names.get("report", lambda: None)()
    if report is None:
        raise ValueError(f"{case} has no function report() that returns examine(...)")
    print(report.to_json() if json else report)
    return int(bool(report.faults))


def command() -> int:
    parser = argparse.ArgumentParser(description="Check a Transformer of your own.")
    parser.add_argument("case", help="a Python file whose report() returns examine(...)")
    parser.add_argument("--json", action="store_true")
    try:
        return main(**vars(parser.parse_args()))
    except (OSError, ValueError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    sys.exit(command())
