"""bench/card.py on a CPU: every part answers, a part that fails or is cut leaves what it had, and
the next one begins."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
import card


def ran(monkeypatch, *words) -> int:
    monkeypatch.setattr(sys, "argv", [str(card.BENCH / "card.py"), *map(str, words)])
    return card.main()


def rows_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.slow
def test_every_part_answers(monkeypatch, tmp_path):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert ran(monkeypatch, "--out", tmp_path) == 0, "\n".join(
        path.read_text()[-1500:] for path in tmp_path.glob("*.log")
    )
    record = json.loads((tmp_path / "card.json").read_text())
    assert list(record["parts"]) == ["probe", "correct", "steps", "loss", "run"] and {
        "commit",
        "hardware",
        "torch",
    } <= set(record)
    assert all(row["state"] == "done" and not row.get("wrong") for row in record["parts"].values())
    checks = {row["check"] for row in rows_of(tmp_path / "correct.jsonl")}
    for words in "float64", "waits for nothing", "in two parts", "beam 4, beside the processor's":
        assert any(words in check for check in checks), words
    probed = rows_of(tmp_path / "probe.jsonl")
    assert "versions" in probed[0] and {row["kernel"] for row in probed if "kernel" in row} == set(
        card.KERNELS
    )
    assert set(
        json.loads((tmp_path / "steps.json").read_text())["precisions"]["fp32"]["forms"]
    ) == {"ours", "torch"}
    assert "blocks, fp32" in json.loads((tmp_path / "loss.json").read_text())["forms"]
    assert rows_of(tmp_path / "run.jsonl")[-1]["check"] == "its clock beside the wall's"


def test_what_is_cut_or_fails_leaves_what_it_had(monkeypatch, tmp_path, capsys):
    write = (
        'import pathlib, time; pathlib.Path(\'LINES\').write_text(\'{"check": "CHECK", "ok":'
        " OK}\\n'); "
    )
    scripts = {
        "probe": write.replace("CHECK", "one").replace("OK", "true") + "time.sleep(60)",
        "correct": write.replace("CHECK", "two").replace("OK", "false"),
        "run": "raise SystemExit('on purpose')",
    }
    monkeypatch.setattr(
        card,
        "command_of",
        lambda name, out: ["-c", scripts[name].replace("LINES", str(out / f"{name}.jsonl"))],
    )
    monkeypatch.setattr(card, "LIMITS", {"probe": 10, "correct": 30, "run": 30})
    assert ran(monkeypatch, "--out", tmp_path) == 1, "what is wrong is told by the exit status"
    parts = json.loads((tmp_path / "card.json").read_text())["parts"]
    assert (
        parts["probe"]["state"] == "cut at its limit"
        and parts["probe"]["rows"] == 1
        and parts["probe"]["seconds"] < 50
    )
    assert parts["correct"]["state"] == "done" and parts["correct"]["wrong"] == ["two"]
    assert (
        parts["run"]["state"] == "failed (1)" and "on purpose" in (tmp_path / "run.log").read_text()
    )
    assert "WRONG: two" in capsys.readouterr().out


def test_when_the_time_is_over_nothing_more_begins(monkeypatch, tmp_path):
    monkeypatch.setattr(card, "one_part", lambda *what: pytest.fail("there is no time left"))
    assert ran(monkeypatch, "--out", tmp_path, "--minutes", "0", "--only", "probe", "joint") == 1
    parts = json.loads((tmp_path / "card.json").read_text())["parts"]
    assert {name: row["state"] for name, row in parts.items()} == {
        "probe": "no time left",
        "joint": "no time left",
    }
    with pytest.raises(SystemExit):
        ran(monkeypatch, "--out", tmp_path, "--only", "nothing")


def test_each_switch_has_a_part():
    from step import FORMS
    from switches import SWITCHES

    for name in SWITCHES:
        words = card.command_of(name, Path("x"))
        assert words[-4:-2] == ["ours", f"ours, {name}"] and words[-3] in FORMS
