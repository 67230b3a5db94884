"""How long the doctor takes with a small model, the translator in the box and Transformer (base).

    python bench/doctor.py --out FILE         a minute or two on one core

The checks of the training are left out (quick=True); none of the three has a fault."""

from pathlib import Path

from common import EVERYDAY, Record, options

from transformer_lit.comparison import count_parameters
from transformer_lit.doctor import examine
from transformer_lit.masks import BOS, EOS, PAD
from transformer_lit.model import Transformer, TransformerConfig
from transformer_lit.translation import Translator

SMALL = dict(d_model=32, n_heads=4, d_ff=64, n_encoder_layers=2, n_decoder_layers=2)


def main():
    o = options(__doc__, out=Path)
    record = Record(o.out, models={})
    for name, model in {
        "small": Transformer(TransformerConfig(40, **SMALL)),
        "tatoeba-fr": Translator.load(EVERYDAY).model,
        "Transformer (base)": Transformer(TransformerConfig(37_000)),
    }.items():
        hooks = dict(start=model.initial_state, step=model.step, encode=model.encode)
        ids = dict(pad_id=PAD, bos_id=BOS, eos_id=EOS)
        size = model.config.source_vocab_size
        report = examine(model, vocab_size=size, **ids, **hooks, trained=True, quick=True)
        report.check()
        facts = {"parameters": count_parameters(model), "seconds": report.seconds}
        record["models"][name] = facts
        print(name, facts)
        record.write()


if __name__ == "__main__":
    main()
