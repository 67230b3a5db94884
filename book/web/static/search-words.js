/* What readers type, for the book's search (search.js). Plain lines, in no order that matters.

   same     One line for each thing that has several names: whichever is typed, all are found. A line
            with one name holds its words together. The glossary's headwords and what it says after
            "also called" are added by themselves; spellings (optimiser, tokenise), plurals, hyphens
            and words written together or apart need no line.
   about    A page, and what readers call what it is about: symptoms, names of PyTorch and of papers.
   weights  Pages that mention everything come after pages that are about it; 1 is a chapter. */
window.tlSearchWords = {
same: `
attention mask, attn_mask
causal mask, look-ahead mask, subsequent mask, autoregressive mask, tgt_mask, triu, tril, future mask
padding mask, key_padding_mask, src_mask, src_key_padding_mask, tgt_key_padding_mask, memory_key_padding_mask, pad mask
fully masked row, fully masked rows, all keys masked, row of -inf, closed row, closed rows
future leak, label leakage, leaks the future, sees the future, looks ahead, cheating, depends_on_future, leaks_future, reading the future, reads the future, reads_future
padding leak, padding invariance, depends_on_padding
data leakage, test leakage, contamination, train test overlap, decontamination, overlap removal
scaled dot-product attention, dot-product attention, sdpa, scaled_dot_product_attention
query key value, queries keys values, qkv, q k v, key query value, keys queries values, query key and value, queries keys and values
attention weights, attention probabilities, attention map, attention maps, attention heatmap, attention matrix, attention distribution, attention pattern
attention scores, attention logits
visualize attention, plot attention, attention visualization, see attention, show attention, inspect attention, extract attention weights, get attention weights, need_weights, output_attentions, bertviz
multi-head attention, multihead attention, mha, MultiheadAttention, several heads, number of heads, num_heads, n_heads, nhead
split heads, merge heads, split into heads, reshape heads, heads as a batch axis
self-attention, intra-attention
cross-attention, encoder-decoder attention, source attention
kv cache, key-value cache, kv caching, past_key_values, cached keys and values, use_cache, incremental decoding, cache of keys and values
fused attention, flash attention, fused kernel, memory-efficient attention
quadratic complexity, quadratic memory, quadratic cost, o n 2, o t 2, n squared
positional encoding, position encoding, positional embedding, position embedding, position information, positional information
sinusoidal, sinusoid, sine cosine, sin cos, sine and cosine
learned positional embedding, learned positions, learned position embeddings
rope, rotary, rotary position embedding, rotary positions
length extrapolation, length generalization, longer than in training, longer sequences than in training
permutation equivariance, permutation invariance, order of words, word order
residual connection, skip connection, shortcut connection, residual, skip path, identity shortcut
residual stream, skip path
layer normalization, layer norm, layer_norm, ln layer
batch normalization, batch norm
rms norm, root mean square norm
pre-norm, pre-ln, prenorm, norm first, norm_first, pre layer norm, pre layer normalization
post-norm, post-ln, postnorm, norm last, post layer norm, post layer normalization
add and norm, add & norm, addnorm, sublayer, sublayer connection, norm order
feed-forward, ffn, mlp, position-wise feed-forward network, feedforward network, d_ff, dim_feedforward, dense layer
activation function, nonlinearity
hidden size, d_model, embedding dimension, embed_dim, model dimension
head dimension, d_head, d_k, head_dim, head size
square root of d_model, sqrt d_model, sqrt d, multiply embeddings, embedding scale, scale embeddings, math.sqrt
square root of d_k, sqrt d_k, sqrt dk, divide by sqrt, scaling factor, why are the scores divided
weight tying, tied embeddings, shared embeddings, shared weights, tie weights, weight sharing, tied weights
initialization, init, weight init, xavier, glorot, xavier_uniform, init_weights, initialize weights
initial loss, first loss, loss at initialization, loss at start, starting loss, loss at step 0
number of parameters, parameter count, count parameters, how many parameters, model size, numel, parameters on paper, param count, parameters count
flops, floating point operations, compute cost, 6nd, 6n rule, mfu, operations on paper
encoder output, encoder memory
hidden state, hidden states, contextual representation
shift right, shifted right, shift_right, decoder input, trg 1, tgt_input, right shift, shifted target, shift the target
teacher forcing, scheduled sampling
exposure bias, train inference gap, free running
cross-entropy, nll, negative log-likelihood, crossentropyloss, log loss, nll_loss, loss function
label smoothing, smoothed labels, label_smoothing, kldivloss, kl divergence
perplexity, ppl
ignore_index, ignore padding in loss, padding in the loss, mask the loss
entropy, entropy floor, lower bound of the loss
calibration, overconfidence, overconfident, confidence
learning rate schedule, lr schedule, lr scheduler, learning rate scheduler, noam, noam scheduler, noamopt, lambdalr, inverse square root, schedule
learning rate, lr, step size
warmup, linear warmup, warmup_steps, ramp
cosine decay, cosine schedule, cosine annealing, cosine learning rate
adam, adam optimizer
adamw, weight decay, decoupled weight decay
gradient accumulation, accumulate gradients, accumulation steps, micro-batch, grad accumulation
gradient clipping, clip_grad_norm, clip gradients, max_norm, grad clip, gradient norm
mixed precision, amp, autocast, bf16, fp16, bfloat16, float16, half precision, gradscaler, automatic mixed precision
length bucketing, bucketing, group by length, sort by length, max_tokens, token batches, tokens per batch, dynamic batching, batch by tokens
data parallelism, ddp, distributed training, multi-gpu, multiple gpus, distributeddataparallel, several gpus, all-reduce, torchrun
checkpoint, checkpointing, save model, save checkpoint, state_dict, load checkpoint, load_state_dict, save and load
resume, resume training, continue training, restart training, interrupted training, exact resume
checkpoint averaging, average checkpoints, weight averaging, averaged weights, model averaging, swa
training loop, train loop, trainer, training step
out of memory, oom, cuda out of memory, gpu memory, memory error, runs out of memory
nan, not a number, inf loss, loss is nan, nan loss, infinite loss
diverges, loss explodes, exploding loss, loss goes up, divergence, unstable training, training instability, loss spikes, loss spike, blows up
overfitting, overfit, memorization, memorize, memorizes
overfit one batch, overfit a single batch, overfit a small batch, full step on one batch
early stopping, when to stop, stop training
validation loss, val loss, dev loss
inference, generation, generate, generate text, autoregressive generation, predict, prediction time, at test time
decoding, text generation
greedy decoding, greedy search, argmax decoding, greedy
beam search, beam size, beam width, num_beams, beam
length penalty, length normalization, length_penalty
sampling, temperature, top-p, top-k, nucleus sampling, multinomial
repetition, repeats, repeats itself, loops, repeated words, repeating, repeats words, degenerate output, says the same word again, over and over, again and again, same token, same word
hallucination, made up, unsupported content, undertranslation, omission, missing words, left out
same output, constant output, identical output, same answer, same prediction, ignores the source, ignores the input, ignores its source, always predicts the same
debugging, debug, silent bug, bugs, troubleshooting, what is wrong with my, does not work, doesn't work, not working
not learning, doesn't learn, does not learn, loss stuck, loss does not decrease, loss not decreasing, loss doesn't go down, loss plateau, plateau, stuck, won't converge, does not converge, not converging
gibberish, nonsense, garbage, garbage output, wrong output, output is wrong, bad translations
train eval, model.eval, eval mode, evaluation mode, training mode, model.train, forgot eval
unit test, test my model, check my model, check my implementation, test my transformer, check a transformer of your own, sanity check, verify implementation
batch size, different batch size, depends on batch size, batch invariance
tokenization, tokenizer, tokenize, tokenizers, tokenizing, tokenised, cutting text
byte pair encoding, bpe, byte-level bpe, subword, subwords, merge rules, wordpiece, sentencepiece, unigram, merges, pieces of words
vocabulary, vocab, vocab_size, vocabulary size
out-of-vocabulary, oov, unk, unknown word, unknown token, unknown words, rare words
special tokens, bos, eos, sos, bos token, eos token, start token, end token, end of sentence, end sign, end of sequence
detokenization, detokenize, decode tokens
dataset, datasets, data set, training data
parallel corpus, sentence pairs, bitext, line-aligned, parallel data, translation pairs
synthetic dataset, generated data, toy data, toy dataset, synthetic data, pocket corpus
train test split, split, splits, validation split, test set, train validation test, held-out
deduplication, duplicates, deduplicate, dedup
cleaning, filtering, clean data, noisy data, noise, data quality, filter pairs, misaligned
translation, translate, translator, machine translation, neural machine translation, nmt, translation model
bleu, sacrebleu, bleu score, brevity penalty, n-gram precision
chrf, chrf2, character n-gram
statistical significance, significance, significant, significance test, p-value, p value, hypothesis test, bootstrap, paired bootstrap, bootstrap resampling, is the difference real
confidence interval, error bars, error bar, standard error, 95 interval, how sure is a score
reproduce the paper, reproduce, original results, wmt, wmt14, wmt 2014, newstest2014, paper's experiment, large scale
replication, reproducibility, replicate, reproducible, random seed, seeds, seed, replicated
hyperparameter, hyperparameters, hparams, settings
hyperparameter search, hyperparameter tuning, hyperparameter optimization, grid search, random search, tune hyperparameters, tuning
ablation, ablate, ablation study, remove heads, head pruning, prune heads, switched off
baseline, chance level, random baseline
fair comparison, controlled comparison, controlled experiment, compare models, compare architectures
word alignment, alignment, aligner, align words, alignment error rate, aer
coreference, pronoun resolution, coreference resolution, anaphora, what does it refer to
attention sink, attends to eos, resting place
hook, forward hook, register_forward_hook, hooks
rnn, recurrent neural network, recurrent network, recurrence, recurrent
lstm, long short-term memory
gru, gated recurrent unit
additive attention, bahdanau, bahdanau attention, luong, luong attention
seq2seq, sequence to sequence, encoder-decoder model, encoder-decoder
vanishing gradient, vanishing gradients, gradient vanishes, exploding gradient, exploding gradients, gradient that fades
long-range dependency, long-term dependency, long distance dependency, long-range dependencies, path length
sequential operations, parallelization, parallelizable, parallel training, not parallel, steps in a row
decoder-only, gpt, causal language model, autoregressive language model, gpt-2, llm, large language model
prefix language model, prefix lm, prefix mask
encoder-only, bert
masked language model, mlm, masked language modeling, masked words, masked lm
span corruption, t5
fill in the middle, fim, infilling
left padding, padding_side, padding on the left, position_ids, left-pad
swiglu, gated linear unit, gated feed-forward, glu, geglu
gelu, swish, silu
grouped-query attention, gqa, multi-query attention, mqa, fewer keys, num_kv_heads
muon, newton-schulz, orthogonalized momentum
llama, modern transformer, today's transformer, modern llm, since 2017, after 2017, modern components
vision transformer, vit, image patches, patches
fine-tuning, finetune, fine-tune, finetuning, continued training, warm start, pretrained, pretrained model, transfer learning, domain adaptation
catastrophic forgetting, forgets, forgetting
back-translation, backtranslation, monolingual data, french without english
own data, own dataset, custom data, custom dataset, my own data, my data, own corpus, own language pair, another language, other languages, my own language, own pair, your own pair, your own parallel corpus, my dataset
low resource, low-resource, little data, small dataset, small data, few sentences, few examples, few pairs
export, deploy, deployment, production, serving, serve, ctranslate2, onnx, torchscript, server
quantization, quantize, int8, 8-bit, 4-bit, four bits
latency, throughput, speed, tokens per second, faster, slow, too slow, how fast
command line, cli, terminal, shell command, command-line interface, transformer-lit
pytorch transformer, nn.Transformer, torch.nn.Transformer, nn.TransformerEncoder, nn.TransformerDecoder, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer, built-in transformer
fast path, fastpath, enable_nested_tensor, nested tensor, better transformer
contiguous, non-contiguous, view size is not compatible
not divisible, must be divisible, embed_dim must be divisible by num_heads
index out of range, index error, out of range
device-side assert, cuda error
install, installation, setup, requirements, pip install, environment
colab, google colab, in the cloud
license, licence, copyright, terms of use
cite, citation, bibtex
exercise, exercises, solutions, solution, answers
copy task, copying task, toy task, smoke test
limitations, caveats, threats to validity, what these comparisons can't tell
language model, next-token prediction, lm, next word prediction
orthogonal
param, params, parameter, parameters
logits, unnormalized scores
softmax, saturation, softmax saturates
attention is all you need, vaswani, original paper, the paper
transformer base, base model, transformer big, big model
bidirectional, attends both ways
quality estimation, confidence score, how sure is the model
`,
about: `
01_why_attention: why attention, why transformers, motivation, rnn bottleneck, what is wrong with rnns, sequential operations, vanishing gradient, exploding gradient, long-range dependency, maximum path length, backpropagation through time
02_attention: attention mechanism, scaled dot-product attention, query key value, what are queries keys and values, sqrt d_k, why divide by square root of d_k, attention formula, attention equation, softmax(QK^T)V, attention scores, softmax saturation, quadratic complexity, memory of attention, flash attention, -inf or -1e9, masked_fill, nan after softmax, soft lookup, hard attention, cosine similarity, attention from scratch, implement attention, simple attention example
03_masks: attention mask, causal mask, padding mask, look-ahead mask, mask shape, mask broadcasting, triu, key_padding_mask, attn_mask, fully masked row, nan from padding, future leak, label leakage, loss too low, training loss too good, boolean mask, True means masked, inverted mask, mask convention, additive float mask, sequence packing, does the decoder need a padding mask, eos in the decoder input
04_multi_head: multi-head attention, number of heads, split heads, view or transpose, reshape heads, contiguous, embed_dim must be divisible by num_heads, why several heads, self-attention, three uses of attention, nn.MultiheadAttention, einsum, head dimension, W_q W_k W_v W_o, output projection
05_positions: positional encoding, positional embedding, sinusoidal, why sine and cosine, learned positional embedding, sqrt d_model, multiply embeddings, embedding layer, nn.Embedding, token embedding, permutation equivariance, word order, length extrapolation, maximum sequence length, index out of range, odd d_model, relative position, positional encoding added along the batch axis, add or concatenate positions
06_residual_and_norm: residual connection, layer normalization, layer norm vs batch norm, pre-norm, post-norm, add and norm, feed-forward, ffn, mlp, relu, activation function, d_ff, sublayer, nn.LayerNorm, layer norm epsilon, unbiased std, gamma beta, dropout, norm before or after, deep networks, degenerate gradients, position-wise feed-forward, final layer norm
07_encoder: encoder, encoder layer, transformer encoder, nn.TransformerEncoderLayer, nn.TransformerEncoder, bidirectional, contextual representation, contextual embeddings, stack of layers, number of layers, word sense disambiguation
08_decoder: decoder, decoder layer, cross-attention, encoder-decoder attention, transformer decoder, nn.TransformerDecoderLayer, masked self-attention, encoder output, memory argument, incremental decoding, masked multi-head attention, cache
09_transformer: full model, the whole transformer, transformer class, transformer from scratch, implement transformer in pytorch, number of parameters, parameter count, transformer base, transformer big, weight tying, initialization, xavier, initial loss, loss at initialization ln V, flops, 6n rule, nn.Transformer, fast path, enable_nested_tensor, model size, architecture diagram, hyperparameters of the base model, TransformerConfig, logits too large, torch.compile
10_loss: loss function, cross-entropy, label smoothing, KLDivLoss, teacher forcing, exposure bias, shift right, target shifted by one, trg[:, :-1], off by one, decoder input and labels, ignore_index, padding in the loss, perplexity, bits per token, entropy, nll, reduction sum or mean, log_softmax, scheduled sampling, calibration, loss does not reach zero, CrossEntropyLoss, chunked loss, initial loss, training in parallel
11_schedule: learning rate schedule, warmup, noam, inverse square root decay, peak learning rate, LambdaLR, lr scheduler, cosine schedule, linear decay, why warmup, learning rate too high, loss diverges, loss explodes, loss stuck, plateau, model collapses, warmup steps for a small dataset, adam, adam beta2, learning rate finder
12_training: training loop, trainer, how to train, gradient accumulation, gradient clipping, mixed precision, bf16, fp16, GradScaler, loss is nan, length bucketing, tokens per batch, batch size, checkpoint, resume training, loss jumps after resume, save and load, distributed training, multi-gpu, ddp, dataloader, collate_fn, optimizer.zero_grad, out of memory, training is slow, epochs, seeds, adam epsilon, validation loss, overfit one batch, callbacks
13_decoding: decoding, inference, generation, greedy decoding, beam search, beam size, length penalty, kv cache, cached output differs, sampling, temperature, top-k, top-p, max length, stop at eos, early_stopping, batch decoding, different answers with another batch size, output too short, translate with beam search, model.generate, speed up inference, repetition, empty output, never stops, model repeats itself
14_copy_task: copy task, smoke test, sanity check, toy task, overfit one batch, does my transformer learn, length generalization, high accuracy but nonsense output, checkpoint averaging, exact match, plateau, induction
14b_workshop: debugging, debug a transformer, my transformer doesn't work, my transformer does not learn, troubleshooting, silent bugs, common mistakes, same output for every input, constant output, loss does not decrease, loss too low but output is nonsense, good loss bad translations, output repeats, works in training but fails in evaluation, model.eval, dropout at test time, worse than reported, validation accuracy high translations nonsense, case studies, gradients are zero, overfit one batch, find the bug, diagnose, outputs only eos, empty output, model repeats itself, loss stuck, loss goes to zero
14c_doctor: check a transformer of your own, test my implementation, unit tests for transformers, doctor, check my model, verify implementation, test for future leaks, test for padding leaks, test the kv cache, property tests, invariance test, continuous integration, nn.Transformer misused, batch invariance, adapter, for teachers, transformer-doctor
15_tokens: tokenization, tokenizer, byte pair encoding, bpe, train a tokenizer, sentencepiece, wordpiece, subword, vocabulary size, out-of-vocabulary, unk, special tokens, detokenization, unicode normalization, pre-tokenization, shared vocabulary, tokenizers library, tiktoken, characters or words
16_pocket_corpus: synthetic dataset, generate training data, grammar, pocket corpus, toy dataset, winograd, coreference, gender, known word alignments, dataset of the book, compositional generalization, context-free grammar
17_data: dataset, datasets, data, download data, wmt, multi30k, tatoeba, opus, europarl, parallel corpus, data cleaning, filtering, deduplication, train test split, data leakage, contamination, length ratio, several references, load data, manythings, language identification
18_translation: translation, translate a sentence, english to french, trained model, pretrained model, load a trained translator, save and load, how long does training take, learning curve, translation errors, failure cases, hallucination, undertranslation, missing words, idioms, gender bias, numbers and names, rare words, long sentences, quality estimation, quantization, inference, word order, use the model, model repeats itself, omission
19_evaluation: evaluation, evaluate, metrics, bleu, sacrebleu, chrf, comet, meteor, ter, statistical significance, paired bootstrap, confidence interval, brevity penalty, n-gram precision, compare bleu scores, tokenized bleu, bleu lower than in the paper, signature, several references, perplexity or bleu, human evaluation
20_attention_maps: attention maps, visualize attention, plot attention weights, attention heatmap, interpretability, explainability, what heads do, head analysis, word alignment, alignment error rate, attention is not explanation, coreference, ablate heads, pruning heads, attention sink, forward hook, need_weights, output_attentions, bertviz, attention rollout, probing, activation patching, get attention from nn.Transformer
21_wmt: reproduce the paper, wmt14, newstest2014, large-scale training, paper's results, 27.3 bleu, 28.4 bleu, training cost, gpu hours, dollars, how long to train, memory-mapped, shards, large dataset, streaming data, stop and resume, original hyperparameters, multi-gpu
22_fair_comparison: hyperparameter search, fair comparison, controlled comparison, ablation, seeds, paired seeds, baseline, statistical significance, confidence interval, multiple comparisons, equal parameters, equal flops, iso-flop, random search, grid search, learning rate search, compare architectures, experiment design, noise between runs, variance between runs
23_rnn: rnn, lstm, gru, bahdanau, luong, additive attention, seq2seq, encoder-decoder rnn, packed sequence, pack_padded_sequence, bottleneck, context vector, transformer vs rnn, lstm vs transformer, forget gate, bidirectional rnn
24_decoder_only: decoder-only, gpt, causal language model, prefix language model, language model, left padding, position ids, one stack, encoder-decoder vs decoder-only, llm, language token, loss on the prompt, prompt tokens, nanogpt, minGPT, concatenate source and target
25_since_2017: modern transformer, rope, rotary embeddings, rmsnorm, swiglu, gelu, grouped-query attention, multi-query attention, kv cache size, memory of the kv cache, muon, adamw, weight decay, llama, learned positions, alibi, relative position, pre-norm, what changed since 2017, mixture of experts, gated feed-forward, improvements
26_three_families: bert, t5, gpt, encoder-only, encoder-decoder, masked language model, mlm, span corruption, fill in the middle, vision transformer, non-autoregressive, pretraining objectives, mask token, bert vs gpt, which architecture, iterative decoding, infilling, classification
26b_limitations: limitations, caveats, threats to validity, small scale, does it transfer to large models, scaling laws, external validity
A1_command_line: command line, cli, terminal, transformer-lit, train from the command line, translate from the command line, options, flags, arguments, error messages, inference, how to use
A2_export: export, deploy, deployment, production, serving, ctranslate2, onnx, torchscript, int8 quantization, latency, throughput, server, fast inference on cpu, without pytorch, c++
A3_replication: replication, reproducibility, seeds, do the results hold, claims, failed to replicate, determinism, different machines, run it again, how reliable
A4_your_own_pair: train on my own data, own parallel corpus, custom dataset, own language pair, another language, fine-tuning, domain adaptation, back-translation, monolingual data, low resource, how much data, how many sentence pairs, overfitting, early stopping, dropout, small dataset, model size for little data, tsv, csv, tmx, catastrophic forgetting, german, spanish, chinese, transfer learning, pretrained models, opus-mt, nllb, how much data do I need, data augmentation, augmentation, how many sentences
inside: inside the model, interactive, demo, step through, playground, watch the model, animation, break it
preface: how to run, install, setup, colab, prerequisites, what do I need to know, notation, symbols, reading order, gpu needed, without gpu, requirements, windows, run the notebooks, out of memory, B S T D H shapes, solutions to exercises, hints
index: start, contents, try it, overview, download the book, pdf, epub
paper_to_code: attention is all you need, paper section, equation, table 3, figure 1, paper implementation, where in the paper
attribution: license, copyright, data license, may i use, commercial use
bibliography: references, papers, citations, literature
glossary: glossary, terms, definitions, vocabulary of the field
api: api, module reference, functions, package, source code, import
errata: errata, corrections, mistakes in the book
changelog: changelog, versions, what is new
`,
weights: `
glossary: 0.45
api: 0.5
source: 0.35
errata: 0.3
changelog: 0.3
bibliography: 0.45
attribution: 0.6
A3_replication: 0.6
26b_limitations: 0.75
part: 0.55
index: 0.5
inside: 0.75
paper_to_code: 0.65
`,
};
