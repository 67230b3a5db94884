"""Tables of what the benches recorded."""
from transformer_lit.support import rivals


def test_every_record_has_its_table():
    makers = {"step": rivals.step_rows, "loss": rivals.loss_rows, "to_loss": rivals.goal_rows, "decoding": rivals.decoding_rows,
              "decoding-fp32": rivals.decoding_rows, "multi30k": rivals.caption_rows, "choices": rivals.choice_rows}
    for name, rows_of in makers.items():
        record = rivals.recorded(name)
        assert len(rows_of(record)) > 1, name
        assert max(map(len, rivals.origin(record).split("\n"))) < 80 and rivals.origin(record).startswith("python"), name


def test_a_goal_that_was_not_reached_is_said():
    row = {"name": "twin, x", "hardware": "2 threads", "epochs": 3, "planned_epochs": 20, "best": 1.5, "goal_epoch": None, "cpu_seconds": 600}
    reached = row | {"name": "ours", "hardware": "1 thread, bf16", "goal_epoch": 2, "goal_cpu_seconds": 120}
    first, second = rivals.goal_rows({"rows": [row, reached]})
    assert (first["recipe"], first["in"], first["goal in epoch"], first["minutes"]) == ("ours", "bf16", 2, "2")
    assert (second["goal in epoch"], second["minutes"], second["epochs"]) == ("not reached", "over 10", "3 of 20")


def test_the_best_run_of_each_way():
    run = {"language": "de", "way": "ours", "steps": 9, "tokens": 90, "bleu": 20.0, "low": 19.0, "high": 21.0}
    found = rivals.caption_rows({"runs": [run | {"valid_loss": 2.0}, run | {"valid_loss": 1.0}, run | {"valid_loss": 3.0}]})
    assert [row["loss"] for row in found] == [1.0] and found[0]["BLEU"] == "20.0 (19.0 to 21.0)"


def test_a_choice_is_measured_on_two_texts():
    row = {"choice": "Adam", "steps": 9, "peak": 0.004, "news": 6.5, **{f"{text}_worse{end}": value for text, value in (
        ("news", 0.1), ("corpus", 0.2)) for end in ("", "_low", "_high")}}
    ours, adam = rivals.choice_rows({"choices": [row | {"choice": "ours"}, row]})
    assert "worse on news by" not in ours
    assert (adam["worse on news by"], adam["worse on the corpus by"]) == ("+0.10 (+0.10 to +0.10)", "+0.20 (+0.20 to +0.20)")
