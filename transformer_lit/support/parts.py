"""What a model is made of: two kinds of parts can have weights of the same names and shapes."""
from torch import nn

from ..decoder import Decoder, DecoderLayer
from ..embeddings import Embedding
from ..encoder import Encoder, EncoderLayer
from ..model import Transformer
from ..multi_head import MultiHeadAttention
from ..sublayers import FeedForward, Sublayer

PARTS_OF_2017 = {Transformer, Embedding, Encoder, Decoder, EncoderLayer, DecoderLayer, MultiHeadAttention, FeedForward, Sublayer,
                 nn.Embedding, nn.ModuleList, nn.Linear, nn.ReLU, nn.LayerNorm, nn.Dropout, nn.Identity}


def check_parts(model: nn.Module, done: str = "exported") -> None:
    "Raises ValueError unless all parts are those of 2017: weights of others, which may have the same names and shapes, would be read into these."
    other = [part for part in model.modules() if type(part) not in PARTS_OF_2017]
    if other:
        raise ValueError(f"this model has a part of another kind, {type(other[0]).__name__}: only the Transformer of chapters 2 to 9 "
                         f"can be {done}")
