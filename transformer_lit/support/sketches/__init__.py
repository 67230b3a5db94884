"""Drawings and tables of single chapters, each one call with numbers that the page has made; and sentences made from numbers."""
from .attention import attention_sheet, heads_apart, query_key_value, two_masks
from .copying import by_head, copies_by_length, copies_left, loss_and_copies, pointing_heads, said_again, what_is_left_out
from .decoding import beam_nodes, beam_tree, cache_rates, cached_rows, found_by_width, lengths_by_alpha, staying, word_tree
from .heads import head_turns, heads_off, points_lost, rates_by_head, read_and_said
from .layers import (across_then_alone, known_and_found, leaning_on, moved_by_layer, norm_axes, norm_orders, one_matrix, parameter_areas,
                     post_or_pre, residual_or_none, who_reads)
from .positions import joined_clocks, over_clocks, shift_by, table_of_clocks, windows_read
from .prose import Prose, in_a_row, listed
from .recurrence import loop_and_look, two_readers, unrolled
from .scores import (at_group, damaged_scores, equal_runs, narrowing, precisions_compared, runs, scores_by_group, ways_apart,
                     who_reports)
from .text import (dealt_out, filled_slots, growing_word, joint_use, numbered_words, pieces, readable_piece, shortcuts_compared,
                   unknown_by_size, without_rare_words, word_links, words_and_pieces)
from .training import (answers_by_epoch, averaged_checkpoints, falling_loss, killed_and_resumed, losses_apart, losses_by_epoch,
                       padded, range_by_epoch, shifted, training_curves, validation_by_epoch, words_kept)

__all__ = ["Prose", "across_then_alone", "answers_by_epoch", "at_group", "attention_sheet", "averaged_checkpoints", "beam_nodes",
           "beam_tree", "by_head", "cache_rates", "cached_rows", "copies_by_length", "copies_left", "damaged_scores", "dealt_out",
           "equal_runs", "falling_loss", "filled_slots", "found_by_width", "growing_word", "head_turns", "heads_apart", "heads_off",
           "in_a_row", "joined_clocks", "joint_use", "killed_and_resumed", "known_and_found", "leaning_on", "lengths_by_alpha",
           "listed", "loop_and_look", "loss_and_copies", "losses_apart", "losses_by_epoch", "moved_by_layer", "narrowing",
           "norm_axes", "norm_orders", "numbered_words", "one_matrix", "over_clocks", "padded", "parameter_areas", "pieces", "pointing_heads", "points_lost",
           "post_or_pre", "precisions_compared", "query_key_value", "range_by_epoch", "rates_by_head", "read_and_said",
           "readable_piece", "residual_or_none", "runs", "said_again", "scores_by_group", "shift_by", "shifted",
           "shortcuts_compared", "staying", "table_of_clocks", "training_curves", "two_masks", "two_readers", "unknown_by_size",
           "unrolled", "validation_by_epoch", "ways_apart", "what_is_left_out", "who_reads", "who_reports", "windows_read",
           "without_rare_words", "word_links", "word_tree", "words_and_pieces", "words_kept"]
