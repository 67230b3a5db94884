"""What a model is made of: two kinds of parts can have weights of the same names and shapes."""

from torch import nn

from transformer_lit.decoder import Decoder, DecoderLayer
from transformer_lit.embeddings import Embedding
from transformer_lit.encoder import Encoder, EncoderLayer
from transformer_lit.model import Transformer
from transformer_lit.multi_head import MultiHeadAttention
from transformer_lit.sublayers import FeedForward, Sublayer

PARTS_OF_2017 = {
    Transformer,
    Embedding,
    Encoder,
    Decoder,
    EncoderLayer,
    DecoderLayer,
    MultiHeadAttention,
    FeedForward,
    Sublayer,
    nn.Embedding,
    nn.ModuleList,
    nn.Linear,
    nn.ReLU,
    nn.LayerNorm,
    nn.Dropout,
    nn.Identity,
}


def check_parts(model: nn.Module, done: str = "exported") -> None:
    """Raises ValueError unless all parts are those of 2017: weights of others, which may have the
    same names and shapes, would be read into these."""
    other = [part for part in model.modules() if type(part) not in PARTS_OF_2017]
    if other:
        raise ValueError(
            f"this model has a part of another kind, {type(other[0]).__name__}: only the"
            f" Transformer of chapters 2 to 9 can be {done}"
        )
