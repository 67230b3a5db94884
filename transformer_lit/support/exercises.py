from transformer_lit.exercises import *  # noqa: F403
