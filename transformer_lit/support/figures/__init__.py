from transformer_lit.figures import *  # noqa: F403
