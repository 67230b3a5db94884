/* What readers type, for the book's search (search.js). Plain lines, in no order that matters.

   same     One line for each thing that has several names: whichever is typed, all are found. A line
            with one name holds its words together. The glossary's headwords and what it says after
            "also called" are added by themselves; spellings (optimiser, tokenise), plurals, hyphens
            and words written together or apart need no line.
   about    A page, or a section of it (page#place), and what readers call what it is about: symptoms,
            questions, names of PyTorch and of papers.
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
weight tying, lm_head, share_all_embeddings, share_decoder_input_output_embed, tie_word_embeddings, tied embeddings, shared embeddings, shared weights, tie weights, weight sharing, tied weights
initialization, init, weight init, xavier, glorot, xavier_uniform, init_weights, initialize weights
initial loss, first loss, loss at initialization, loss at start, starting loss, loss at step 0
number of parameters, parameter count, count parameters, how many parameters, model size, numel, parameters on paper, param count, parameters count
flops, floating point operations, compute cost, 6nd, 6n rule, mfu, operations on paper
encoder output, encoder memory
hidden state, hidden states, contextual representation
shift right, shifted right, shift_right, decoder input, trg 1, tgt_input, right shift, shifted target, shift the target
scheduled sampling
exposure bias, train inference gap, free running
cross-entropy, nll, negative log-likelihood, crossentropyloss, log loss, nll_loss, loss function
label smoothing, smoothed labels, label_smoothing, kldivloss, kl divergence
perplexity, ppl
ignore_index, ignore padding in loss, padding in the loss, mask the loss
entropy, entropy floor, lower bound of the loss
calibration, overconfidence, overconfident, confidence
learning rate schedule, lr schedule, lr scheduler, learning rate scheduler, noam, noam scheduler, noamopt, lambdalr, inverse square root, schedule
learning rate, lr, step size
warmup, linear warmup, warmup_steps, warmup_updates, num_warmup_steps, warmup_ratio, ramp
cosine decay, cosine schedule, cosine annealing, cosine learning rate
adam, adam optimizer
adamw, weight decay, decoupled weight decay
gradient accumulation, gradient_accumulation_steps, accumulate_grad_batches, update_freq, accumulate gradients, accumulation steps, micro-batch, grad accumulation
gradient clipping, clip_grad_norm, clip_norm, max_grad_norm, gradient_clip_val, clip gradients, max_norm, grad clip, gradient norm
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
validation loss, val loss, dev loss, eval loss
rises, rising, goes up, increases, increasing, turns up, going up
inference, generation, generate, generate text, autoregressive generation, predict, prediction time, at test time
decoding, text generation
greedy decoding, greedy search, argmax decoding, greedy
beam search, beam size, beam width, num_beams, num_return_sequences, beam
length penalty, length normalization, length_penalty
sampling, temperature, top-p, top-k, nucleus sampling, multinomial, do_sample
repetition, no_repeat_ngram_size, no_repeat_ngram, repetition_penalty, repeats, repeats itself, loops, repeated words, repeating, repeats words, degenerate output, says the same word again, over and over, again and again, same token, same word
hallucination, made up, unsupported content, undertranslation, omission, missing words, left out
same output, constant output, identical output, same answer, same prediction, ignores the source, ignores the input, ignores its source, always predicts the same
debugging, debug, silent bug, bugs, troubleshooting, what is wrong with my, does not work, doesn't work, not working
not learning, doesn't learn, loss stuck, loss doesn't decrease, loss doesn't go down, not going down, not decreasing, not improving, not falling, not dropping, loss plateau, plateau, stuck, not converge, not converging, loss stays, constant loss, flat loss
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
mixture of experts, moe, expert router, sparse experts
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
sequential operations, parallelization, parallelizable, parallelism, parallel training, not parallel, steps in a row
decoder-only, gpt, causal language model, autoregressive language model, gpt-2, llm, large language model
prefix language model, prefix lm, prefix mask
encoder-only, bert
masked language model, mlm, masked language modeling, masked words, masked lm
span corruption, t5
fill in the middle, fim, infilling
rotate_half, half rotation, interleaved pairs, adjacent dimensions
context extension, long context, rope scaling, rope theta, yarn, position interpolation, longer context
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
01_why_attention#long-range-dependencies-six-words-to-carry: why are long sentences hard, long-term dependency
01_why_attention#sequential-operations-flops-and-time: why are rnns slow, rnn can't be parallelized, why is the transformer faster than an rnn, transformer training is parallel
01_why_attention#vanishing-gradients: vanishing gradient in an rnn, exploding gradient
01_why_attention#the-fixed-size-bottleneck: whole sentence in one vector, context vector bottleneck
01_why_attention#the-transformer-architecture: what is a transformer, how does a transformer work, overview of the architecture
02_attention: attention mechanism, scaled dot-product attention, query key value, what are queries keys and values, sqrt d_k, why divide by square root of d_k, attention formula, attention equation, softmax(QK^T)V, attention scores, softmax saturation, quadratic complexity, memory of attention, flash attention, -inf or -1e9, masked_fill, nan after softmax, soft lookup, hard attention, cosine similarity, attention from scratch, implement attention, simple attention example
02_attention#attention-as-soft-lookup-which-word-does-it-mean: what are query key value, what are queries keys and values, where do q k v come from, intuition of attention, difference between key and value
02_attention#alternatives-that-fail-hard-unscaled-cosine: hard attention, argmax instead of softmax, why softmax
02_attention#implementation: implement attention in pytorch, attention from scratch
02_attention#why-the-scores-are-divided-by-dk: why divide by sqrt d_k, why scaled, dot products too large, scale of the scores
02_attention#a-dot-product-is-not-a-cosine-similarity: dot product or cosine similarity, why dot product
02_attention#quadratic-memory-it-grows-with-t2: complexity of attention, long sequences need too much memory
02_attention#masking-values-minus-a-billion-or-minus-infinity: -1e9 or -inf, masked_fill, mask with fp16, nan after softmax, softmax over a fully masked row
03_masks: attention mask, causal mask, padding mask, look-ahead mask, mask shape, mask broadcasting, triu, key_padding_mask, attn_mask, fully masked row, nan from padding, future leak, label leakage, loss too low, training loss too good, boolean mask, True means masked, inverted mask, mask convention, additive float mask, sequence packing, does the decoder need a padding mask, eos in the decoder input
03_masks#why-masks-padding-and-future-tokens: why mask, what is a mask for, what masks does a transformer need
03_masks#padding-mask-causal-mask-decoder-mask: create a padding mask, create a causal mask, combine masks, mask shape, mask dimensions, causal mask at inference, mask needed at inference, mask when decoding, mask without future tokens
03_masks#twelve-masking-bugs: boolean or float mask, True means ignore, True means padding, inverted mask, attn_mask is added, wrong mask shape, padding mask rows or columns, mask queries or keys, masked after softmax
03_masks#does-the-decoder-need-its-padding-mask: tgt_key_padding_mask needed, padding mask in the decoder, memory_key_padding_mask needed
03_masks#eos-in-the-decoder-input: eos in decoder input, remove eos from the target
03_masks#detecting-a-leak-from-the-loss-a-fair-die: loss too low, loss lower than possible, model cheats in training
04_multi_head: multi-head attention, number of heads, split heads, view or transpose, reshape heads, contiguous, embed_dim must be divisible by num_heads, why several heads, self-attention, three uses of attention, nn.MultiheadAttention, einsum, head dimension, W_q W_k W_v W_o, output projection
04_multi_head#one-head-gives-one-average: why several heads, why multi-head attention, what is the point of heads
04_multi_head#heads-as-a-batch-axis: why contiguous, view and transpose, one large matrix for all heads, separate linear layer per head, heads in parallel
04_multi_head#five-ways-to-split-heads-four-of-them-wrong: split heads with view, reshape heads wrong, wrong transpose of heads, view instead of transpose
04_multi_head#self-attention-masked-self-attention-cross-attention: self-attention or cross-attention, kinds of attention, three uses of attention
04_multi_head#experiment-one-head-or-several: number of heads, one head or many
04_multi_head#memory-and-time-explicit-and-fused-attention: is flash attention faster, time of attention
05_positions: positional encoding, positional embedding, sinusoidal, why sine and cosine, learned positional embedding, sqrt d_model, multiply embeddings, embedding layer, nn.Embedding, token embedding, permutation equivariance, word order, length extrapolation, maximum sequence length, index out of range, odd d_model, relative position, positional encoding added along the batch axis, add or concatenate positions
05_positions#attention-is-permutation-equivariant: why positional encoding, why does order not matter, word order without positions
05_positions#requirements-for-a-positional-encoding: positional encoding formula, exponent of sine and cosine, 2i or 2i+1, 10000
05_positions#sinusoidal-positional-encoding-clocks: odd d_model, odd dimension, positional encoding in pytorch, how does sinusoidal encoding work
05_positions#a-relative-shift-is-a-rotation: why sine and cosine, relative positions by sinusoids
05_positions#why-embeddings-are-multiplied-by-d: why multiply embeddings by sqrt d_model, embedding scaling, scale of the embeddings, embeddings times sqrt
05_positions#the-inputembedding-module: index out of range in embedding, index out of range positional embedding, longer than max_len, maximum sequence length, positional encoding buffer, sequence too long for the position table, token id too large, device-side assert triggered, embedding layer
05_positions#where-to-add-positional-encodings: add or concatenate positions, positional encoding wrong axis, positional encoding batch_first, added along the batch
05_positions#experiment-sinusoidal-learned-none: sinusoidal or learned positions, transformer without positional encoding, no positional encoding
05_positions#going-further-why-extrapolation-fails: longer sequences than in training, why does length extrapolation fail
06_residual_and_norm: residual connection, layer normalization, layer norm vs batch norm, pre-norm, post-norm, add and norm, feed-forward, ffn, mlp, relu, activation function, d_ff, sublayer, nn.LayerNorm, layer norm epsilon, unbiased std, gamma beta, dropout, norm before or after, deep networks, degenerate gradients, position-wise feed-forward, final layer norm
06_residual_and_norm#the-feed-forward-network-a-bend: purpose of the feed-forward layer, why d_ff, why a feed-forward network, position-wise
06_residual_and_norm#residual-connections: why residual connections, why skip connections
06_residual_and_norm#layer-normalization: layernorm std unbiased, epsilon in layernorm, nn.LayerNorm differs, gamma and beta, layer norm from scratch
06_residual_and_norm#layernorm-vs-batchnorm: layernorm or batchnorm, why not batch norm, normalize over which axis, norm over time leaks the future, causal mask right but the future leaks
06_residual_and_norm#the-sublayer-residual-connection-dropout-norm: where to put dropout, norm first or last, order of norm and residual, LayerNorm(x + Sublayer(x))
06_residual_and_norm#pre-norm-vs-post-norm: pre-norm or post-norm, norm_first, which is better, final layer norm
07_encoder: encoder, encoder layer, transformer encoder, nn.TransformerEncoderLayer, nn.TransformerEncoder, bidirectional, contextual representation, contextual embeddings, stack of layers, number of layers, word sense disambiguation
07_encoder#stacking-n-layers: final layer norm of the encoder, extra norm at the end, number of layers, clone layers, copies of a layer
07_encoder#the-encoder-layer: one encoder layer in code
08_decoder: decoder, decoder layer, cross-attention, encoder-decoder attention, transformer decoder, nn.TransformerDecoderLayer, masked self-attention, encoder output, memory argument, incremental decoding, masked multi-head attention, cache
08_decoder#what-the-decoder-needs-the-prefix-and-the-source: what goes into the decoder, inputs of the decoder, memory argument
08_decoder#six-ways-to-wire-cross-attention-five-of-them-wrong: where do queries come from in cross-attention, which encoder layer goes to the decoder, encoder output as keys and values, wrong cross-attention
08_decoder#the-decoder-n-layers: does every decoder layer get the last encoder output
08_decoder#ablation-cross-attention-one-vector-no-source: decoder ignores the encoder, decoder without a source
09_transformer: full model, the whole transformer, transformer class, transformer from scratch, implement transformer in pytorch, number of parameters, parameter count, transformer base, transformer big, weight tying, initialization, xavier, initial loss, loss at initialization ln V, flops, 6n rule, nn.Transformer, fast path, enable_nested_tensor, model size, architecture diagram, hyperparameters of the base model, TransformerConfig, logits too large, torch.compile
09_transformer#where-the-parameters-are: how many parameters has the transformer, 65 million parameters, parameters of base and big
09_transformer#counting-parameters: count parameters by hand, how many parameters has the base model
09_transformer#weight-tying-one-matrix-three-names: weight tying, share embedding and output weights, scale of tied embeddings, tie weights in pytorch, why share weights
09_transformer#parity-with-nn-transformer: my transformer differs from nn.Transformer, nn.Transformer in eval mode, fast path, compare with pytorch, load weights of nn.Transformer
09_transformer#initialization-and-the-initial-loss-should-it-be-ln-v: initial loss, loss at step 0, embedding initialization, xavier init, what should the first loss be
09_transformer#the-6n-rule-for-training-flops: flops of training, compute budget
09_transformer#configuration-and-hyperparameters: hyperparameters of base and big
10_loss: loss function, cross-entropy, label smoothing, KLDivLoss, teacher forcing, exposure bias, shift right, target shifted by one, trg[:, :-1], off by one, decoder input and labels, ignore_index, padding in the loss, perplexity, bits per token, entropy, nll, reduction sum or mean, log_softmax, scheduled sampling, calibration, loss does not reach zero, CrossEntropyLoss, chunked loss, initial loss, training in parallel
10_loss#teacher-forcing: teacher forcing, decoder parallel training, are predictions sequential in training, training or inference of the decoder, does the decoder run step by step in training, is the decoder parallel
10_loss#decoder-input-and-labels: shift the target, labels not shifted, trg[:, :-1], decoder input in training, loss goes to zero, first decoder input, off by one in the labels, training loss zero at once
10_loss#requirements-for-the-loss: log of softmax, loss sum or mean
10_loss#label-smoothing-bounds-the-logits: kldivloss inf, log or log_softmax, label smoothing with kldivloss, why label smoothing
10_loss#ignoring-padding-ignore-index: padding in the loss, ignore_index, average over real tokens
10_loss#exposure-bias-what-teacher-forcing-hides: exposure bias, scheduled sampling, good with teacher forcing but bad in generation
10_loss#label-smoothing-perplexity-accuracy-calibration: label smoothing raises the loss, label smoothing and perplexity, loss does not reach zero
10_loss#chunked-cross-entropy-when-the-logits-don-t-fit-into-memory: logits need too much memory, large vocabulary out of memory
11_schedule: learning rate schedule, warmup, noam, inverse square root decay, peak learning rate, LambdaLR, lr scheduler, cosine schedule, linear decay, why warmup, learning rate too high, loss diverges, loss explodes, loss stuck, plateau, model collapses, warmup steps for a small dataset, adam, adam beta2, learning rate finder
11_schedule#why-warmup-the-first-step-is-the-worst-informed: why warmup
11_schedule#the-noam-schedule-linear-warmup-inverse-square-root-decay: noam, noam factor, warmup for a small dataset, 4000 warmup steps, formula of the learning rate
11_schedule#testing-a-scheduler-off-by-one-bugs: learning rate is zero in the first step, warmup with learning rate zero in the first step, first lr 0, optimizer lr has no effect, LambdaLR multiplies lr, division by zero in scheduler, step=0, scheduler step per batch or epoch, learning rate a thousand times too small
11_schedule#warmup-steps-and-hidden-size: how many warmup steps, choose warmup steps, warmup steps too many, loss stuck with 4000 warmup steps
11_schedule#ablation-with-and-without-warmup: is warmup necessary, training without warmup
11_schedule#adam-s-first-steps-a-full-update-on-one-batch: adam betas, why beta2 0.98
11_schedule#warmup-or-a-lower-peak-learning-rate: lower learning rate instead of warmup, which learning rate
11_schedule#representation-collapse-without-warmup: all outputs equal, encoder collapses
12_training: training loop, trainer, how to train, gradient accumulation, gradient clipping, mixed precision, bf16, fp16, GradScaler, loss is nan, length bucketing, tokens per batch, batch size, checkpoint, resume training, loss jumps after resume, save and load, distributed training, multi-gpu, ddp, dataloader, collate_fn, optimizer.zero_grad, out of memory, training is slow, epochs, seeds, adam epsilon, validation loss, overfit one batch, callbacks
12_training#length-bucketing-and-token-based-batches: batch size in tokens, too much padding, sort by length
12_training#gradient-accumulation: gradient accumulation differs from a large batch, gradient accumulation normalization, small gpu large batch, mean of means
12_training#mixed-precision-bf16: nan in fp16, bf16 or fp16, mixed precision, GradScaler
12_training#checkpoints-and-exact-resume: resume training, loss jumps after resume, what to save in a checkpoint, save the model, same batches after resume
12_training#data-parallel-training: train on several gpus, two gpus, multi-gpu, DataParallel
12_training#the-training-loop-in-ten-lines: training loop in pytorch, how to train a transformer
13_decoding: decoding, inference, generation, greedy decoding, beam search, beam size, length penalty, kv cache, cached output differs, sampling, temperature, top-k, top-p, max length, stop at eos, early_stopping, batch decoding, different answers with another batch size, output too short, translate with beam search, model.generate, speed up inference, repetition, empty output, never stops, model repeats itself
13_decoding#greedy-decoding-in-ten-lines: how to generate output, generate token by token, decode from bos, inference loop
13_decoding#beam-search-in-twenty-lines: beam size, how does beam search work, implement beam search
13_decoding#the-kv-cache-the-prefix-computed-once: kv cache, how does the kv cache work, cached output differs, wrong position in the cache, mask at inference, mask for the newest token
13_decoding#batched-beam-search: when does beam search stop, what ends the search, stop criterion of beam search, beam search for a batch, reorder cache
13_decoding#batched-greedy-decoding-finished-sequences-leave-the-batch: generate for a batch, maximum output length, max_length, max_new_tokens
13_decoding#test-batch-invariance: different output with another batch size, result depends on the batch
13_decoding#length-penalty-and-early-stopping: length penalty, beam search prefers short outputs, beam search stops too early, early_stopping, alpha
13_decoding#exercise-13-1-sampling: temperature, sample from the model, top-k, top-p
14_copy_task: copy task, smoke test, sanity check, toy task, overfit one batch, does my transformer learn, length generalization, high accuracy but nonsense output, checkpoint averaging, exact match, plateau, induction
14_copy_task#exact-match-and-two-metrics-that-fail: token accuracy misleads, accuracy high but output wrong
14_copy_task#training-on-the-copy-task: copy task training, copy task doesn't converge
14_copy_task#a-future-leak-that-the-loss-doesn-t-show: high accuracy but nonsense output, good validation accuracy but bad inference, good loss bad output
14_copy_task#exercise-14-1-the-plateau: copy task plateau, loss stuck then falls
14_copy_task#exercise-14-2-decoding-from-the-wrong-start-token: copy task start token, wrong start token, copy task first output wrong, decoding begins with the wrong token, start symbol, start_symbol 0 or 1
14_copy_task#length-generalization: copy longer sequences
14b_workshop: debugging, debug a transformer, my transformer doesn't work, my transformer does not learn, troubleshooting, silent bugs, common mistakes, same output for every input, constant output, loss does not decrease, loss too low but output is nonsense, good loss bad translations, output repeats, works in training but fails in evaluation, model.eval, dropout at test time, worse than reported, validation accuracy high translations nonsense, case studies, gradients are zero, overfit one batch, find the bug, diagnose, outputs only eos, empty output, model repeats itself, loss stuck, loss goes to zero
14c_doctor: check a transformer of your own, test my implementation, unit tests for transformers, doctor, check my model, verify implementation, test for future leaks, test for padding leaks, test the kv cache, property tests, invariance test, continuous integration, nn.Transformer misused, batch invariance, adapter, for teachers, transformer-doctor
15_tokens: tokenization, tokenizer, byte pair encoding, bpe, train a tokenizer, sentencepiece, wordpiece, subword, vocabulary size, out-of-vocabulary, unk, special tokens, detokenization, unicode normalization, pre-tokenization, shared vocabulary, tokenizers library, tiktoken, characters or words
15_tokens#the-cost-of-out-of-vocabulary-words: unknown words, unk in the output
15_tokens#vocabulary-size: choose vocabulary size, how many merges
15_tokens#a-joint-vocabulary-for-both-languages: shared vocabulary, joint or separate vocabulary, same tokenizer for source and target
15_tokens#the-same-with-hugging-face-tokenizers: hugging face tokenizers, tokenizers library, train a tokenizer
16_pocket_corpus: synthetic dataset, generate training data, grammar, pocket corpus, toy dataset, winograd, coreference, gender, known word alignments, dataset of the book, compositional generalization, context-free grammar
17_data: dataset, datasets, data, download data, wmt, multi30k, tatoeba, opus, europarl, parallel corpus, data cleaning, filtering, deduplication, train test split, data leakage, contamination, length ratio, several references, load data, manythings, language identification
17_data#splitting-by-sentence-not-by-pair: duplicates in train and test, how to split, train test split
17_data#cleaning-filtering-bad-pairs: clean a parallel corpus, filter sentence pairs
17_data#what-leakage-does-to-the-validation-loss: validation loss too good, validation set leaks
17_data#downloads-and-checksums: download the dataset, where is the data
18_translation: translation, translate a sentence, english to french, trained model, pretrained model, load a trained translator, save and load, how long does training take, learning curve, translation errors, failure cases, hallucination, undertranslation, missing words, idioms, gender bias, numbers and names, rare words, long sentences, quality estimation, quantization, inference, word order, use the model, model repeats itself, omission
18_translation#the-training-run: training time, how long does training take, how long to train the model, time per epoch
18_translation#the-translator-class-the-inference-pipeline: translate my own sentence, use the trained model
18_translation#checkpoints-and-quantization: load the trained model, size of the model file
18_translation#rare-words: rare words, unknown words in translation
18_translation#long-sentences-and-omissions: coverage penalty, missing words, translation leaves out words, long sentences lose their end, undertranslation, incomplete translation
18_translation#repetition-output-that-loops: output repeats, repeats the same word, repetition penalty, no_repeat_ngram
18_translation#confidence-and-quality-estimation: how sure is the model, confidence of a translation
19_evaluation: evaluation, evaluate, metrics, bleu, sacrebleu, chrf, comet, meteor, ter, statistical significance, paired bootstrap, confidence interval, brevity penalty, n-gram precision, compare bleu scores, tokenized bleu, bleu lower than in the paper, signature, several references, perplexity or bleu, human evaluation
19_evaluation#bleu-variants: sacrebleu or nltk, different bleu scores, tokenized bleu, multi-bleu
19_evaluation#confidence-intervals-bootstrap-and-paired-bootstrap: is the difference significant, bootstrap, compare two systems
19_evaluation#clipped-n-gram-precision-and-brevity-penalty: how is bleu computed, brevity penalty
20_attention_maps: attention maps, visualize attention, plot attention weights, attention heatmap, interpretability, explainability, what heads do, head analysis, word alignment, alignment error rate, attention is not explanation, coreference, ablate heads, pruning heads, attention sink, forward hook, need_weights, output_attentions, bertviz, attention rollout, probing, activation patching, get attention from nn.Transformer
20_attention_maps#attention-weights-what-do-they-explain: do attention weights explain, is attention an explanation
20_attention_maps#attention-weights-of-pytorch-s-nn-transformer: need_weights, average_attn_weights, attention weights of nn.Transformer, get attention weights in pytorch, visualize attention of nn.MultiheadAttention
20_attention_maps#a-hook-on-the-attention-module: forward hook for attention
20_attention_maps#word-alignment-from-cross-attention: word alignment, attention as alignment
20_attention_maps#head-ablation: which heads matter, prune heads
21_wmt: reproduce the paper, wmt14, newstest2014, large-scale training, paper's results, 27.3 bleu, 28.4 bleu, training cost, gpu hours, dollars, how long to train, memory-mapped, shards, large dataset, streaming data, stop and resume, original hyperparameters, multi-gpu
21_wmt#what-was-run-and-what-was-not: paper's training time, gpu hours of the paper, hardware of the paper, did you reproduce the paper
21_wmt#the-experiment-s-hyperparameters: hyperparameters of the paper
21_wmt#how-to-run-it: run the paper's experiment, how long to train the paper's model, training time of the base model, train on wmt14, train on eight gpus
21_wmt#one-output-seven-bleu-variants: 27.3 bleu, 28.4 bleu
21_wmt#validation-and-checkpoint-averaging: average checkpoints
22_fair_comparison: hyperparameter search, fair comparison, controlled comparison, ablation, seeds, paired seeds, baseline, statistical significance, confidence interval, multiple comparisons, equal parameters, equal flops, iso-flop, random search, grid search, learning rate search, compare architectures, experiment design, noise between runs, variance between runs
23_rnn: rnn, lstm, gru, bahdanau, luong, additive attention, seq2seq, encoder-decoder rnn, packed sequence, pack_padded_sequence, bottleneck, context vector, transformer vs rnn, lstm vs transformer, forget gate, bidirectional rnn
23_rnn#additive-bahdanau-attention-a-look-at-every-step: bahdanau attention, additive attention, query key value in bahdanau attention, attention in an rnn, alignment model
23_rnn#exercise-23-3-coverage-what-was-left-out: coverage
24_decoder_only: decoder-only, gpt, causal language model, prefix language model, language model, left padding, position ids, one stack, encoder-decoder vs decoder-only, llm, language token, loss on the prompt, prompt tokens, nanogpt, minGPT, concatenate source and target
24_decoder_only#the-concatenated-sequence-positions-and-padding: left padding, position ids with padding, padding side, left or right padding, attention mask for left padding
24_decoder_only#the-loss-target-only-or-source-too: loss on the prompt, mask the prompt in the loss
24_decoder_only#causal-vs-prefix-mask: prefix mask
25_since_2017: modern transformer, rope, rotary embeddings, rmsnorm, swiglu, gelu, grouped-query attention, multi-query attention, kv cache size, memory of the kv cache, muon, adamw, weight decay, llama, learned positions, alibi, relative position, pre-norm, what changed since 2017, mixture of experts, gated feed-forward, improvements
25_since_2017#learned-positions-and-rope: rope or sinusoidal, rotary embedding
25_since_2017#length-extrapolation-three-tokens-back: long context, rope scaling
25_since_2017#llama-2023-and-models-up-to-2026: mixture of experts
25_since_2017#kv-cache-multi-query-and-grouped-query-attention: gqa or mqa, fewer key-value heads
25_since_2017#pre-norm-and-rmsnorm: rmsnorm or layernorm
25_since_2017#feed-forward-activations-gelu-and-swiglu: swiglu or gelu or relu
26_three_families: bert, t5, gpt, encoder-only, encoder-decoder, masked language model, mlm, span corruption, fill in the middle, vision transformer, non-autoregressive, pretraining objectives, mask token, bert vs gpt, which architecture, iterative decoding, infilling, classification
26_three_families#why-masked-predictions-don-t-multiply-to-a-sentence-probability: can bert generate text
26_three_families#attention-visibility-who-sees-whom: bert or gpt, encoder-only or decoder-only
26b_limitations: limitations, caveats, threats to validity, small scale, does it transfer to large models, scaling laws, external validity
A1_command_line: command line, cli, terminal, transformer-lit, train from the command line, translate from the command line, options, flags, arguments, error messages, inference, how to use
A1_command_line#train-on-your-own-parallel-corpus: init-from, fine-tune the book's translator, continue training from a pretrained model
A1_command_line#translate-one-sentence: pretrained model, trained model download, translate without training, pretrained weights
A2_export: export, deploy, deployment, production, serving, ctranslate2, onnx, torchscript, int8 quantization, latency, throughput, server, fast inference on cpu, without pytorch, c++
A2_export#export-and-run: export the model, onnx, ctranslate2, deploy
A3_replication: replication, reproducibility, seeds, do the results hold, claims, failed to replicate, determinism, different machines, run it again, how reliable
A4_your_own_pair: train on my own data, own parallel corpus, custom dataset, own language pair, another language, fine-tuning, domain adaptation, back-translation, monolingual data, low resource, how much data, how many sentence pairs, overfitting, early stopping, dropout, small dataset, model size for little data, tsv, csv, tmx, catastrophic forgetting, german, spanish, chinese, transfer learning, pretrained models, opus-mt, nllb, how much data do I need, data augmentation, augmentation, how many sentences
A4_your_own_pair#learning-curve-bleu-vs-number-of-pairs: how much data do I need, how many sentence pairs
A4_your_own_pair#other-language-pairs: another language, german, chinese
A4_your_own_pair#one-command-train-on-a-tsv-file: train on my own data, own dataset
A4_your_own_pair#fine-tuning-opus-mt-or-nllb-step-by-step: fine-tune opus-mt, finetune opus-mt, fine-tune nllb, finetune nllb, MarianMT fine tuning, fine-tune marian, fine-tune a pretrained translation model, hugging face translation model, Seq2SeqTrainer, predict_with_generate, forced_bos_token_id, text_target, src_lang, tgt_lang, low-resource fine-tuning
A4_your_own_pair#model-size-and-hyperparameters-for-small-data: small dataset hyperparameters, model size for a small dataset, overfitting on a small dataset
A4_your_own_pair#overfitting-and-early-stopping: early stopping, validation loss increases
A4_your_own_pair#cpu-gpu-or-mac-on-which-device: mps, apple silicon, mac gpu
symptoms: troubleshooting, my transformer doesn't work
symptoms#the-loss-is-low-the-output-is-nonsense: good validation accuracy but bad inference, high accuracy but nonsense translations, low loss but garbage output, good in training but bad at inference, loss goes to zero, works with teacher forcing but not in generation
symptoms#the-same-output-for-every-input: same output for every input, model ignores the source, model ignores the input, identical translations, constant output
symptoms#the-output-repeats-itself-or-never-stops: output repeats, never outputs eos, doesn't stop
symptoms#only-pads-one-word-or-nothing-comes-out: outputs only padding, predicts pad, predicts eos at once, empty output, empty translation, generates nothing, stops after one word, ends too early, first token is eos
symptoms#an-error-message-of-pytorch: shape error, runtime error, RuntimeError, shapes cannot be multiplied, shape mismatch, size mismatch, size of tensor must match, device-side assert triggered, backward a second time, tensors on different devices, inplace operation, does not require grad
symptoms#the-loss-is-nan: loss is nan, nan after some steps, inf loss
symptoms#the-first-loss-is-far-above-ln-v: initial loss too high, first loss 100, what should the first loss be
symptoms#the-loss-doesn-t-decrease-or-is-stuck-at-a-plateau: loss doesn't decrease, loss stuck, plateau, model doesn't learn, loss stays constant, loss goes up and down, loss oscillates, overfit one batch fails
symptoms#the-validation-loss-is-below-the-training-loss: validation loss lower than training loss
symptoms#the-validation-loss-rises-overfitting-on-a-small-dataset: validation loss rises, overfitting
symptoms#fine-in-training-broken-in-eval-mode: model.eval gives worse results, bad in eval mode, different output in eval mode
symptoms#with-the-kv-cache-the-output-differs: kv cache wrong output, kv cache garbage, kv cache differs, output differs with cache, cache bug, use_cache gives another result
symptoms#batch-size-or-padding-changes-the-output: batch size changes the output, padding changes the output, different result alone than in a batch
symptoms#the-right-words-in-the-wrong-order: right words in the wrong order, positions ignored
symptoms#translations-are-too-short-or-beam-search-is-worse-than-greedy: output too short, stops too early, stops after a few words, beam search worse than greedy, large beam is worse
symptoms#worse-than-nn-transformer-or-than-reported: worse than nn.Transformer, worse than reported, different number of parameters
symptoms#bleu-is-lower-than-in-the-paper: bleu lower than in the paper, can't reproduce bleu, low bleu
symptoms#the-loss-jumps-after-resuming-or-with-gradient-accumulation: loss jumps after resuming
symptoms#training-or-decoding-is-slow: training is slow, inference is slow, gpu slow, low gpu utilization
symptoms#cuda-out-of-memory: cuda out of memory, memory grows each step
inside: inside the model, interactive, demo, step through, playground, watch the model, animation, break it
preface: how to run, install, setup, colab, prerequisites, what do I need to know, notation, symbols, reading order, gpu needed, without gpu, requirements, windows, run the notebooks, out of memory, B S T D H shapes, solutions to exercises, hints
preface#reading-paths: solutions to exercises, answers to exercises, where to begin, reading order, how long does the book take
preface#notation-shapes-symbols-colors: notation, symbols, what do B S T D mean
preface#who-this-is-for: prerequisites
preface#reproducibility-what-varies-between-machines: different numbers on my machine, different results every run, not reproducible, seeds
preface#on-your-machine: install, run on my laptop, requirements, python version, torchtext, spacy, ImportError, ModuleNotFoundError, old tutorial doesn't run, notebook doesn't work, package versions, windows, 8 GB of memory, how much RAM, kernel died, dead kernel, kernel restarts, notebook timeout, build timeout, CellTimeoutError, DeadKernelError, build fails, make book fails, pip install fails
preface#in-colab: run in colab, colab, google colab, free colab, free tier, pretrained models, trained model download, pretrained model download, trained model file, where are the weights
preface#on-a-gpu: do I need a gpu, without a gpu, run on cpu, 8 GB of memory, training time, how long does training take, how long does it take to train
preface#out-of-memory-out-of-time: out of memory, colab session ends
index: start, contents, try it, overview, download the book, pdf, epub
index#where-to-start: download pdf, epub
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
