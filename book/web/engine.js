/* The book's translators in the page: text to tokens, encoder, decoder with its cache, greedy and beam search. Nothing leaves the device.

   A classic script, because a page opened from a folder may load nothing else. The arithmetic runs in a worker made from this file's own
   text; the one product that takes nearly all the time is a WebAssembly module of a kilobyte (kernel.wat), or plain JavaScript.
   The numbers are those of the Python package: weights of one byte with a scale per row, everything else in 32 bits.

     const engine = await tlEngine.open("pocket", {progress: ({loaded, total}) => ...});
     const answer = await engine.translate("The animal didn't cross the street.", {beam: 4, top: 5}, event => ...);
     engine.stop();                    // what is running ends with an error called "Stopped"

   tlEngine.open(name, {from, plain, inPage, progress})
     from      folder of model-NAME-0.js and so on; where this script lies, if not given
     plain     true: no WebAssembly
     inPage    true: no worker
     progress  called with {loaded, total}, in letters of the files
   engine.about      {name, config, languages, kernel: "wasm" | "plain", worker: true | false, bytes}
   engine.tokens(text)                         -> {parts: [{text, ids, pieces}], note}
   engine.translate(text, options, event)      -> {text, note, parts: [as from answer, and text, pieces]}
   engine.answer(ids, options, event)          -> {source, ids, text, pieces, score, ended, attention}; ids are a source that ends in EOS;
                                                     ended: EOS was said before the limit
   engine.read(ids, said, options)             -> {logits, attention}: a given answer, token by token; logits (T, V)

   options, all of them may be left out
     beam        hypotheses kept; 1 is greedy                                                            4
     alpha       of the length penalty                                                                   0.6
     maxLength   tokens of the answer, EOS included; null: tokens of the source + 50                     null
     prefix      ids with which the answer must begin                                                    []
     top         for each token, so many of the likeliest with their log-probabilities                   0
     attention   true: the weights of every layer and head, {encoder, decoder, cross}[layer][head]       false
                 as {rows, columns, weights}; row t of decoder and cross reads token t (BOS first) and says token t + 1
     pads        pads added to the source                                                                0
     broken      what is taken out of the model, none of it if left out:
       noHeads         [["encoder" | "decoder" | "cross", layer, head], ...]  their output is 0, as `ablate_heads` of chapter 20 has it
       noScale         true: scores are not divided by √d_k                                              chapter 2
       noSourceMask    true: pads of the source are looked at                                            chapter 3
       noPositions     true: word vectors without positions; or "source", "target"                       chapter 5
       noResidual      sublayers whose input isn't added again, as "decoder.2.self_attention", "encoder.0.feed_forward",
                       "decoder.1.cross_attention", or "encoder.0" for a whole layer                     chapter 6
       noNorm          sublayers without their LayerNorm, named likewise                                 chapter 6
       noCross         true: the decoder's cross-attention sublayers are left out                        chapter 8
       stuckPosition   true: with the cache, every token is taken for the first                          chapter 13

   event(e): what happens meanwhile
     {kind: "part", part, parts, text, ids, pieces}           a part of the text is begun
     {kind: "token", part, step, id, text, top, cross}        greedy: one more token; top and cross if they were asked for
     {kind: "beam", part, step, rows}                         beam: the 2k best, best first; a row is {parent, id, piece, text, score, state},
                                                              state "open", "ended" or "cut"; parent counts the open rows of the step before
     {kind: "said", part, text}                               a part is done
*/
(function () {
"use strict";

function core() {
  const PAD = 0, BOS = 1, EOS = 2, UNK = 3, SPECIAL = ["<pad>", "<bos>", "<eos>", "<unk>"];
  const LONGEST = 20000, ROWS = 256, WIDEST = 16;  // letters of a text, tokens of a part, hypotheses
  const KERNEL = "AGFzbQEAAAABCwFgB39/f39/f38AAhABBHBhZ2UGbWVtb3J5AgABAwMCAAAHDgIDb25lAAAEZm91cgABCtIHAv4BAgN/BnsgBiEJA0AgACEI/QwAAAAAAAAAAAAAAAAAAAAAIQ8gASEHA0AgAv0BAwAhCiAK/acB/foBIQsgCv2oAf36ASEMIAL9AQMIIQogCv2nAf36ASENIAr9qAH9+gEhDiAI/QAEACAL/eYBIAj9AAQQIAz95gH95AEgCP0ABCAgDf3mASAI/QAEMCAO/eYB/eQB/eQBIA/95AEhDyAIQcAAaiEIIAJBEGohAiAHQRBrIgcNAAsgCSAP/R8AIA/9HwGSIA/9HwKSIA/9HwOSIAMqAgCUIAQqAgCSOAIAIAlBBGohCSADQQRqIQMgBEEEaiEEIAVBAWsiBQ0ACwvPBQIJfwl7IAYhCSAJIAVBAnRqIQsgCyAFQQJ0aiENIA0gBUECdGohDwNAIAAhCCAIIAFBAnRqIQogCiABQQJ0aiEMIAwgAUECdGohDv0MAAAAAAAAAAAAAAAAAAAAACEV/QwAAAAAAAAAAAAAAAAAAAAAIRb9DAAAAAAAAAAAAAAAAAAAAAAhF/0MAAAAAAAAAAAAAAAAAAAAACEYIAEhBwNAIAL9AQMAIRAgEP2nAf36ASERIBD9qAH9+gEhEiAC/QEDCCEQIBD9pwH9+gEhEyAQ/agB/foBIRQgCP0ABAAgEf3mASAI/QAEECAS/eYB/eQBIAj9AAQgIBP95gEgCP0ABDAgFP3mAf3kAf3kASAV/eQBIRUgCEHAAGohCCAK/QAEACAR/eYBIAr9AAQQIBL95gH95AEgCv0ABCAgE/3mASAK/QAEMCAU/eYB/eQB/eQBIBb95AEhFiAKQcAAaiEKIAz9AAQAIBH95gEgDP0ABBAgEv3mAf3kASAM/QAEICAT/eYBIAz9AAQwIBT95gH95AH95AEgF/3kASEXIAxBwABqIQwgDv0ABAAgEf3mASAO/QAEECAS/eYB/eQBIA79AAQgIBP95gEgDv0ABDAgFP3mAf3kAf3kASAY/eQBIRggDkHAAGohDiACQRBqIQIgB0EQayIHDQALIAkgFf0fACAV/R8BkiAV/R8CkiAV/R8DkiADKgIAlCAEKgIAkjgCACAJQQRqIQkgCyAW/R8AIBb9HwGSIBb9HwKSIBb9HwOSIAMqAgCUIAQqAgCSOAIAIAtBBGohCyANIBf9HwAgF/0fAZIgF/0fApIgF/0fA5IgAyoCAJQgBCoCAJI4AgAgDUEEaiENIA8gGP0fACAY/R8BkiAY/R8CkiAY/R8DkiADKgIAlCAEKgIAkjgCACAPQQRqIQ8gA0EEaiEDIARBBGohBCAFQQFrIgUNAAsLAIECBG5hbWUC1AECABAAAXgBBWlubmVyAgF3AwVzY2FsZQQEYmlhcwUFb3V0ZXIGAXkHAWsIA2luMAkEb3V0MAoEd2lkZQsCdzAMAncxDQJ3Mg4CdzMPBHN1bTABGQABeAEFaW5uZXICAXcDBXNjYWxlBARiaWFzBQVvdXRlcgYBeQcBawgDaW4wCQRvdXQwCgNpbjELBG91dDEMA2luMg0Eb3V0Mg4DaW4zDwRvdXQzEAR3aWRlEQJ3MBICdzETAncyFAJ3MxUEc3VtMBYEc3VtMRcEc3VtMhgEc3VtMwMjAgACAARyb3dzAQdjb2x1bW5zAQIABHJvd3MBB2NvbHVtbnM=";

  // Text to parts, as Translator.translate has it ------------------------------------------------------------------------

  const SPACES = /[\p{White_Space}\x1c-\x1f]+/gu;  // what Python's split() calls a space

  function readable(text) {
    return text.replace(/\p{Surrogate}/gu, "?").normalize("NFC").replaceAll("’", "'").replace(SPACES, " ").replace(/^ | $/g, "");
  }

  const ENDS = /(?<!^[A-Z]\.)(?<! [A-Z]\.)(?<!\.[A-Za-z]\.)(?<![DMS][rst]\.)(?<!vs\.)(?<!Mrs\.)(?<!etc\.)(?<!Prof\.)(?<=[.!?…]) /gu;

  const CLAUSES = /(?<=.{20}[,;:—)]) (?=.{20})/gu;

  // `letters` in parts of at most `most` tokens, cut at the end of a sentence, else of a clause, else at a space, else anywhere, nearest to the middle
  function pieces(letters, width, most, easy) {
    const text = letters.join(""), n = letters.length, size = width(text);
    for (const [pattern, limit] of [[ENDS, easy], [CLAUSES, 3 * easy], [/ /gu, most], [/(?<=.)(?=.)/gu, most]]) {
      if (size <= Math.min(limit, most)) continue;
      const cuts = [], places = new Map(Array.from(text.matchAll(pattern), found => [found.index, found[0].length]));
      for (let i = 0, at = 0; i < n; at += letters[i++].length) {
        if (places.has(at)) cuts.push([i, i + places.get(at)]);
      }
      if (!cuts.length) continue;
      const off = cut => Math.abs(cut[0] + cut[1] - n);
      const [a, b] = cuts.reduce((best, cut) => off(cut) < off(best) ? cut : best);
      return [...pieces(letters.slice(0, a), width, most, easy), ...pieces(letters.slice(b), width, most, easy)];
    }
    return n ? [text] : [];
  }

  // Parts to ids -----------------------------------------------------------------------------------------------------------

  const untilEnd = ids => { ids = Array.from(ids); return ids.includes(EOS) ? ids.slice(0, ids.indexOf(EOS)) : ids; };

  // Subwords (chapter 15): ids are 4 special tokens, 256 bytes, then the merges in the order in which they were learned
  class BytePairs {
    constructor(merges) {  // Uint16Array: left, right, left, right, ...
      const W = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}²³¹¼-¾";  // \w, which is ASCII in JavaScript
      this.rule = new RegExp(` ?[${W}]+'?| ?[^${W}\\p{White_Space}]|\\p{White_Space}`, "gu");  // what no merge may cross
      const printable = b => b >= 33 && b < 127 || b >= 161 && b != 173;
      const bytes = Array.from({length: 256}, (_, b) => b);
      this.bytes = [...SPECIAL.map(() => []), ...bytes.filter(printable).map(b => [b]), ...bytes.filter(b => !printable(b)).map(b => [b])];
      this.byte = new Uint16Array(256);
      for (let id = 4; id < 260; id++) this.byte[this.bytes[id]] = id;
      this.merges = merges;
      this.merged = new Map();
      for (let i = 0; i < merges.length; i += 2) {
        this.merged.set(merges[i] * 65536 + merges[i + 1], this.bytes.length);
        this.bytes.push([...this.bytes[merges[i]], ...this.bytes[merges[i + 1]]]);
      }
      this.known = new Map();
    }

    split(text) { return text.match(this.rule) || []; }

    cut(piece) {
      let ids = Array.from(new TextEncoder().encode(piece), b => this.byte[b]);
      for (;;) {
        let first = Infinity;  // the merge that was learned earliest
        for (let i = 1; i < ids.length; i++) {
          const id = this.merged.get(ids[i - 1] * 65536 + ids[i]);
          if (id < first) first = id;
        }
        if (first == Infinity) return ids;
        const [a, b] = this.merges.subarray(2 * (first - 260)), glued = [];
        for (let i = 0; i < ids.length; i++) {
          if (ids[i] == a && ids[i + 1] == b) { glued.push(first); i++; } else glued.push(ids[i]);
        }
        ids = glued;
      }
    }

    encode(text) {
      const ids = [];
      if (this.known.size > 5000) this.known.clear();
      for (const piece of this.split(text)) {
        if (!this.known.has(piece)) this.known.set(piece, this.cut(piece));
        for (const id of this.known.get(piece)) ids.push(id);
      }
      return [...ids, EOS];
    }

    text(ids) {
      return new TextDecoder("utf-8", {ignoreBOM: true}).decode(Uint8Array.from(ids.flatMap(id => this.bytes[id])));
    }

    decode(ids) { return this.text(untilEnd(ids)); }

    names(ids) { return Array.from(ids, id => SPECIAL[id] || this.text([id])); }

    unknown() { return []; }
  }

  // Words (chapter 15): one token each, and UNK for what isn't in the list
  class Words {
    constructor(words, language) {
      const w = "\\p{L}\\p{N}_", other = `[^${w}\\p{White_Space}\\x1c-\\x1f]`;
      const rule = {en: `[${w}]+(?:['-][${w}]+)*|${other}`, fr: `[${w}]+(?:-[${w}]+)*'?|${other}`};
      this.rule = new RegExp(rule[language], "gu");
      this.words = [...SPECIAL, ...words];
      this.language = language;
      this.ids = new Map(this.words.map((word, i) => [word, i]));
    }

    split(text) { return text.normalize("NFC").replaceAll("’", "'").match(this.rule) || []; }

    encode(text) { return [...this.split(text).map(word => this.ids.get(word) ?? UNK), EOS]; }

    decode(ids) {
      const text = untilEnd(ids).filter(id => id != PAD && id != BOS).map(id => this.words[id]).join(" ");
      const marks = text.replace(this.language == "fr" ? / ([.,…)])/g : / ([.,…)?!;:])/g, "$1");
      return (this.language == "fr" ? marks.replaceAll("' ", "'") : marks).replaceAll("( ", "(");
    }

    names(ids) { return Array.from(ids, id => this.words[id]); }

    unknown(text) { return this.split(text).filter(word => !this.ids.has(word)); }
  }

  // Products of matrices -----------------------------------------------------------------------------------------------------

  function bytesOf(base64) {  // Uint8Array.from(atob(...), f) takes ten times as long as this loop
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
    const letters = atob(base64), bytes = new Uint8Array(letters.length);
    for (let i = 0; i < bytes.length; i++) bytes[i] = letters.charCodeAt(i);
    return bytes;
  }

  // y = bias + scale · (x Wᵀ): x (rows, inner), W (outer, inner) of one byte each, y (rows, outer)
  function plainProduct(memory) {
    const bytes = new Int8Array(memory.buffer), floats = new Float32Array(memory.buffer);

    function one(x, w, y) {  // four sums, since a processor can add to several at a time
      const {inner, outer} = w, scale = w.scale >> 2, bias = w.bias >> 2;
      for (let n = 0, at = w.at; n < outer; n++) {
        let a = 0, b = 0, c = 0, d = 0;
        for (let k = x, end = x + inner; k < end; k += 4, at += 4) {
          a += floats[k] * bytes[at];
          b += floats[k + 1] * bytes[at + 1];
          c += floats[k + 2] * bytes[at + 2];
          d += floats[k + 3] * bytes[at + 3];
        }
        floats[y + n] = floats[bias + n] + floats[scale + n] * (a + b + c + d);
      }
    }

    function four(x, w, y) {  // four rows of x, so that each weight is read once for all of them
      const {inner, outer} = w, scale = w.scale >> 2, bias = w.bias >> 2;
      for (let n = 0, at = w.at; n < outer; n++) {
        let a = 0, b = 0, c = 0, d = 0;
        for (let k = x, end = x + inner; k < end; k++, at++) {
          const weight = bytes[at];
          a += floats[k] * weight;
          b += floats[k + inner] * weight;
          c += floats[k + 2 * inner] * weight;
          d += floats[k + 3 * inner] * weight;
        }
        [a, b, c, d].forEach((sum, r) => { floats[y + r * outer + n] = floats[bias + n] + floats[scale + n] * sum; });
      }
    }

    return byFours((x, w, y) => one(x >> 2, w, y >> 2), (x, w, y) => four(x >> 2, w, y >> 2));
  }

  // rows by fours, and the rest one by one; x and y are addresses in bytes
  function byFours(one, four) {
    return function (x, rows, w, y) {
      for (let r = 0; r < rows; r += r + 4 <= rows ? 4 : 1) {
        (r + 4 <= rows ? four : one)(x.byteOffset + 4 * r * w.inner, w, y.byteOffset + 4 * r * w.outer);
      }
    };
  }

  function wasmProduct(memory) {
    const {one, four} = new WebAssembly.Instance(new WebAssembly.Module(bytesOf(KERNEL)), {page: {memory}}).exports;
    const told = f => (x, w, y) => f(x, w.inner, w.at, w.scale, w.bias, w.outer, y);
    return byFours(told(one), told(four));
  }

  function wasmHere() {
    try { return WebAssembly.validate(bytesOf(KERNEL)); } catch (error) { return false; }
  }

  // The model (chapters 2 to 9) -------------------------------------------------------------------------------------------------

  class Transformer {
    // `first`: length of the header, header as JSON, zeros up to a multiple of 16, numbers (tools/engine_models.py); the numbers that
    // are not in it come by `fill`, straight to where they are used, so that no second copy of them lies in memory
    constructor(first, plain) {
      const length = new DataView(first.buffer).getUint32(0, true), start = Math.ceil((4 + length) / 16) * 16;
      this.header = JSON.parse(new TextDecoder().decode(first.subarray(4, 4 + length)));
      const c = this.config = this.header.config;
      const vocab = Math.max(c.source_vocab_size, c.target_vocab_size || 0), wide = c.d_model, hidden = Math.max(c.d_ff, wide);
      this.wide = wide;
      this.vocab = c.target_vocab_size || c.source_vocab_size;
      this.K = wide / c.n_heads;
      plain = plain || !wasmHere() || wide % 16 || c.d_ff % 16;
      const room = [this.header.size, 4 * Math.max(vocab, hidden), ...Array(6).fill(4 * ROWS * wide), 4 * ROWS * hidden, 4 * WIDEST * vocab];
      const bytes = room.reduce((sum, size) => sum + Math.ceil(size / 16) * 16, 0);
      const memory = plain ? {buffer: new ArrayBuffer(bytes)} : new WebAssembly.Memory({initial: Math.ceil(bytes / 65536)});
      this.empty = new Uint8Array(memory.buffer, 0, this.header.size);  // what no number has reached yet
      this.empty.set(first.subarray(start));
      this.empty = this.empty.subarray(first.length - start);
      this.kernel = plain ? "plain" : "wasm";
      this.bytes = memory.buffer.byteLength;
      this.product = plain ? plainProduct(memory) : wasmProduct(memory);
      let at = 0;
      const place = room.map(size => { const begin = at; at += Math.ceil(size / 16) * 16; return begin; });
      const floats = i => new Float32Array(memory.buffer, place[i], room[i] / 4);
      [this.x, this.normed, this.query, this.keys, this.values, this.heads, this.hidden, this.logits] = [2, 3, 4, 5, 6, 7, 8, 9].map(floats);
      this.zeros = place[1];
      this.weights = new Float32Array(c.n_heads * ROWS);  // of one query
      this.vector = name => new Float32Array(memory.buffer, ...this.header.tensors[name]);
      this.whole = new Int8Array(memory.buffer);
      const matrices = {}, norms = {};
      for (const name in this.header.tensors) {
        if (name.endsWith(".scale")) {
          const base = name.slice(0, -6), [begin, outer] = this.header.tensors[name], [from, size] = this.header.tensors[base];
          const bias = this.header.tensors[base.replace(/weight$/, "bias")];
          matrices[base.replace(/\.weight$/, "")] = {at: from, scale: begin, scales: this.vector(name), bias: bias ? bias[0] : this.zeros, outer, inner: size / outer};
        } else if (name.endsWith("norm.weight")) {
          norms[name.replace(/\.norm\.weight$/, "")] = {gain: this.vector(name), bias: this.vector(name.replace(/weight$/, "bias"))};
        }
      }
      this.norms = norms;
      this.matrices = matrices;
      this.source = matrices["source_embedding.token_embedding"] || matrices["target_embedding.token_embedding"];
      this.target = matrices["target_embedding.token_embedding"] || this.source;
      this.output = {...(matrices["output_projection"] || this.target), bias: this.zeros};
      this.rates = Float32Array.from({length: wide / 2}, (_, i) => Math.exp(Math.fround(-Math.log(10000) * 2 * i) / wide));
    }

    fill(base64) {
      if (this.empty.setFromBase64) {  // where there is one, the bytes exist once
        this.empty = this.empty.subarray(this.empty.setFromBase64(base64).written);
      } else {
        const bytes = bytesOf(base64);
        this.empty.set(bytes);
        this.empty = this.empty.subarray(bytes.length);
      }
    }

    // row r of x: word vector times √D, plus the position's sines and cosines (chapter 5)
    embed(table, id, position, r) {
      const {at, scales, inner} = table, {x} = this, scale = scales[id], root = Math.sqrt(inner), to = r * inner;
      for (let i = 0; i < inner; i++) x[to + i] = scale * this.whole[at + id * inner + i] * root;
      if (position === null) return;
      for (let i = 0; i < inner; i += 2) {
        const angle = Math.fround(position * this.rates[i / 2]);
        x[to + i] += Math.sin(angle);
        x[to + i + 1] += Math.cos(angle);
      }
    }

    // LayerNorm, row by row (chapter 6)
    layerNorm(x, rows, norm, out) {
      for (let r = 0, n = this.wide; r < rows; r++) {
        let mean = 0, variance = 0;
        for (let i = r * n; i < r * n + n; i++) mean += x[i] / n;
        for (let i = r * n; i < r * n + n; i++) variance += (x[i] - mean) ** 2 / n;
        const over = 1 / Math.sqrt(variance + 1e-5);
        for (let i = 0; i < n; i++) out[r * n + i] = (x[r * n + i] - mean) * over * norm.gain[i] + norm.bias[i];
      }
    }

    // a sublayer with its residual and its norm: f(input) -> output, both (rows, D) (chapter 6)
    around(place, rows, broken, f) {
      const {x, normed, wide} = this, n = rows * wide, [side, layer, name] = place.split(".");
      const named = list => list && list.some(one => one == place || one == `${side}.${layer}`);
      const norm = named(broken.noNorm) ? null : this.norms[`${side}.layers.${layer}.${name}_residual`];
      const pre = this.config.norm == "pre", kept = named(broken.noResidual) ? 0 : 1;
      if (pre && norm) this.layerNorm(x, rows, norm, normed);
      const out = f(pre && norm ? normed : x);
      for (let i = 0; i < n; i++) x[i] = kept * x[i] + out[i];
      if (!pre && norm) this.layerNorm(x, rows, norm, x);
    }

    // softmax(QKᵀ/√d_k) V for query r and all heads (chapters 2 and 4), into row r of `heads`; `rows` says which rows of keys and values
    // are looked at, `closed` which of them are pads. `note` is shown the weights (H, rows) and copies what it wants: the next query
    // overwrites them.
    attend(kind, layer, r, keys, values, rows, closed, broken, note) {
      const {K, wide, query, heads: out} = this, heads = this.config.n_heads, n = rows.length;
      if (this.weights.length < heads * n) this.weights = new Float32Array(2 * heads * n);
      const {weights} = this, scale = broken.noScale ? 1 : 1 / Math.sqrt(K);
      out.fill(0, r * wide, (r + 1) * wide);
      for (let h = 0; h < heads; h++) {
        const first = h * n, here = r * wide + h * K;
        let highest = -Infinity, sum = 0;
        for (let j = 0; j < n; j++) {
          const from = rows[j] * wide + h * K;
          let score = 0;
          for (let i = 0; i < K; i++) score += query[here + i] * keys[from + i];
          weights[first + j] = closed && closed[j] ? -Infinity : score * scale;
          if (weights[first + j] > highest) highest = weights[first + j];
        }
        if (highest == -Infinity) { weights.fill(0, first, first + n); continue; }  // it may look nowhere
        for (let j = first; j < first + n; j++) sum += weights[j] = Math.exp(weights[j] - highest);
        for (let j = first; j < first + n; j++) weights[j] /= sum;
        if (broken.noHeads && broken.noHeads.some(one => one[0] == kind && one[1] == layer && one[2] == h)) continue;
        for (let j = 0; j < n; j++) {
          for (let i = 0, from = rows[j] * wide + h * K; i < K; i++) out[here + i] += weights[first + j] * values[from + i];
        }
      }
      if (note) note(kind, layer, weights.subarray(0, heads * n), n);
    }

    feedForward(place, rows) {
      return input => {
        const {hidden, heads} = this, n = rows * this.config.d_ff;
        this.product(input, rows, this.matrices[`${place}.feed_forward.0`], hidden);
        for (let i = 0; i < n; i++) if (hidden[i] < 0) hidden[i] = 0;
        this.product(hidden, rows, this.matrices[`${place}.feed_forward.2`], heads);
        return heads;
      };
    }

    // ids (S) -> the state that `step` begins with: what the encoder says, as keys and values of every decoder layer (chapters 7 and 13)
    start(ids, broken = {}, note = null) {
      const {x, wide, config} = this, S = ids.length;
      if (S > ROWS) throw new Error(`This part has ${S} tokens, ${ROWS} are the most.`);
      const closed = Uint8Array.from(ids, id => id == PAD && !broken.noSourceMask), all = Int32Array.from(ids, (_, i) => i);
      const positions = broken.noPositions !== true && broken.noPositions !== "source";
      for (let s = 0; s < S; s++) this.embed(this.source, ids[s], positions ? s : null, s);
      for (let layer = 0; layer < config.n_encoder_layers; layer++) {
        const place = `encoder.layers.${layer}`, m = this.matrices;
        this.around(`encoder.${layer}.self_attention`, S, broken, input => {
          this.product(input, S, m[`${place}.self_attention.q_proj`], this.query);
          this.product(input, S, m[`${place}.self_attention.k_proj`], this.keys);
          this.product(input, S, m[`${place}.self_attention.v_proj`], this.values);
          for (let s = 0; s < S; s++) this.attend("encoder", layer, s, this.keys, this.values, all, closed, broken, note);
          this.product(this.heads, S, m[`${place}.self_attention.out_proj`], this.query);
          return this.query;
        });
        this.around(`encoder.${layer}.feed_forward`, S, broken, this.feedForward(place, S));
      }
      const memory = this.norms.encoder ? this.normed : x;
      if (this.norms.encoder) this.layerNorm(x, S, this.norms.encoder, memory);
      const layers = Array.from({length: config.n_decoder_layers}, (_, layer) => {
        const part = kind => {
          this.product(memory, S, this.matrices[`decoder.layers.${layer}.cross_attention.${kind}`], this.keys);
          return this.keys.slice(0, S * wide);
        };
        return {memoryKeys: part("k_proj"), memoryValues: part("v_proj"), keys: new Float32Array(0), values: new Float32Array(0)};
      });
      return {closed, all, layers, count: 0};
    }

    // one more token each. A hypothesis is {id, path}: its newest token, and which rows of the cache are its past; its new row is
    // added to the path. So a beam that is reordered copies a list of numbers, and no keys or values. Returns logits (rows, V).
    step(hypotheses, state, broken = {}, note = null) {
      const {x, wide, config} = this, R = hypotheses.length;
      const positions = broken.noPositions !== true && broken.noPositions !== "target";
      hypotheses.forEach((one, r) => {
        const position = broken.stuckPosition ? 0 : one.path.length;
        this.embed(this.target, one.id, positions ? position : null, r);
        one.path.push(state.count + r);
      });
      state.layers.forEach((cache, layer) => {
        const place = `decoder.layers.${layer}`, m = this.matrices;
        const needed = (state.count + R) * wide;
        if (cache.keys.length < needed) {
          for (const kind of ["keys", "values"]) {
            const more = new Float32Array(Math.max(needed, 2 * cache[kind].length, 32 * wide));
            more.set(cache[kind]);
            cache[kind] = more;
          }
        }
        this.around(`decoder.${layer}.self_attention`, R, broken, input => {
          this.product(input, R, m[`${place}.self_attention.q_proj`], this.query);
          this.product(input, R, m[`${place}.self_attention.k_proj`], this.keys);
          this.product(input, R, m[`${place}.self_attention.v_proj`], this.values);
          cache.keys.set(this.keys.subarray(0, R * wide), state.count * wide);
          cache.values.set(this.values.subarray(0, R * wide), state.count * wide);
          hypotheses.forEach((one, r) => this.attend("decoder", layer, r, cache.keys, cache.values, one.path, null, broken, note));
          this.product(this.heads, R, m[`${place}.self_attention.out_proj`], this.query);
          return this.query;
        });
        if (!broken.noCross) this.around(`decoder.${layer}.cross_attention`, R, broken, input => {
          this.product(input, R, m[`${place}.cross_attention.q_proj`], this.query);
          hypotheses.forEach((one, r) => this.attend(
            "cross", layer, r, cache.memoryKeys, cache.memoryValues, state.all, state.closed, broken, note));
          this.product(this.heads, R, m[`${place}.cross_attention.out_proj`], this.query);
          return this.query;
        });
        this.around(`decoder.${layer}.feed_forward`, R, broken, this.feedForward(place, R));
      });
      state.count += R;
      const last = this.norms.decoder ? this.normed : x;
      if (this.norms.decoder) this.layerNorm(x, R, this.norms.decoder, last);
      this.product(last, R, this.output, this.logits);
      return Array.from({length: R}, (_, r) => this.logits.subarray(r * this.vocab, (r + 1) * this.vocab));
    }
  }

  // Decoding (chapter 13) ---------------------------------------------------------------------------------------------------------

  const penalty = (length, alpha) => ((5 + length) / 6) ** alpha;

  function logSoftmax(logits) {  // in place: the next step overwrites them anyway
    let highest = -Infinity, sum = 0;
    for (let i = 0; i < logits.length; i++) if (logits[i] > highest) highest = logits[i];
    for (let i = 0; i < logits.length; i++) sum += Math.exp(logits[i] - highest);
    const total = highest + Math.log(sum);
    for (let i = 0; i < logits.length; i++) logits[i] -= total;
    return logits;
  }

  function best(numbers, n) {  // the indices of the n largest, largest first
    const found = [];
    for (let i = 0; i < numbers.length; i++) {
      if (found.length == n && !(numbers[i] > numbers[found[n - 1]])) continue;
      let at = found.length < n ? found.length : n - 1;
      while (at > 0 && numbers[found[at - 1]] < numbers[i]) { found[at] = found[at - 1]; at--; }
      found[at] = i;
    }
    return found;
  }

  const likeliest = (logP, n, tokens) => best(logP, n).map(id => ({id, piece: tokens.names([id])[0], logP: logP[id]}));

  // what all ways begin with: the encoder, BOS, and the tokens that were given
  function begin(model, source, options) {
    const state = model.start(source, options.broken);
    const one = {id: BOS, path: [], said: [], score: 0};
    for (const id of options.prefix) {
      one.score = Math.fround(one.score + logSoftmax(model.step([one], state, options.broken)[0])[id]);
      one.said.push(id);
      one.id = id;
    }
    return [state, one];
  }

  async function greedy(model, tokens, source, limit, options, event, breathe) {
    const [state, one] = begin(model, source, options);
    while (one.said.length < limit) {
      const cross = options.attention ? [] : undefined;
      const [logits] = model.step([one], state, options.broken, cross && ((kind, layer, weights, n) => {
        if (kind == "cross") cross[layer] = Array.from({length: weights.length / n}, (_, h) => weights.slice(h * n, h * n + n));
      }));
      const [id] = best(logits, 1), logP = logSoftmax(logits);
      one.score = Math.fround(one.score + logP[id]);
      one.id = id;
      if (id != EOS) one.said.push(id);
      event({kind: "token", step: one.path.length, id, text: tokens.decode(one.said), cross, top: options.top ? likeliest(logP, options.top, tokens) : undefined});
      if (id == EOS) break;
      await breathe();
    }
    return {ids: one.said, score: one.score, ended: one.id == EOS};
  }

  async function beamSearch(model, tokens, source, limit, options, event, breathe) {
    const k = options.beam, alpha = options.alpha, [state, first] = begin(model, source, options);
    let open = [first], done = 0, found = {ids: [], score: -Infinity, ended: false};
    if (first.said.length >= limit) return {ids: first.said, score: first.score, ended: false};
    while (open[0].said.length < limit) {
      const length = open[0].said.length + 1, logs = model.step(open, state, options.broken).map(logSoftmax);
      const rows = logs.flatMap((logP, parent) => best(logP, 2 * k).map(id => ({parent, id, score: Math.fround(open[parent].score + logP[id])})));
      const top = best(rows.map(row => row.score), 2 * k).map(i => rows[i]);  // so that k can go on where k end
      top.forEach((row, i) => {
        const score = Math.fround(row.score / penalty(length, alpha));
        if (row.id != EOS || i >= k) return;
        done += 1;
        if (score > found.score) found = {ids: open[row.parent].said, score, ended: true};
      });
      const going = top.filter(row => row.id != EOS).slice(0, k);
      if (event.wanted) event({kind: "beam", step: length, rows: top.map((row, i) => ({
        ...row, piece: tokens.names([row.id])[0], text: tokens.decode([...open[row.parent].said, row.id]),
        state: row.id == EOS ? (i < k ? "ended" : "cut") : going.includes(row) ? "open" : "cut"}))});
      open = going.map(row => ({id: row.id, score: row.score, path: [...open[row.parent].path], said: [...open[row.parent].said, row.id]}));
      const hope = Math.fround(open[0].score / Math.fround(penalty(limit, alpha)));  // the most that an open one can still score
      if (length >= limit && found.score == -Infinity) found = {ids: open[0].said, score: hope, ended: false};
      if (!(hope > found.score) || done >= k) break;
      await breathe();
    }
    return found;
  }

  // a given answer through the decoder, token by token: logits and the weights of every attention
  async function readAlong(model, source, said, options, breathe, wantLogits) {
    const kinds = {encoder: model.config.n_encoder_layers, decoder: model.config.n_decoder_layers, cross: model.config.n_decoder_layers};
    const given = [BOS, ...said], T = given.length, S = source.length, heads = model.config.n_heads, at = {}, maps = {};
    for (const kind in kinds) {
      const [rows, columns] = {encoder: [S, S], decoder: [T, T], cross: [T, S]}[kind];
      at[kind] = Array(kinds[kind]).fill(0);
      maps[kind] = at[kind].map(() => Array.from({length: heads}, () => ({rows, columns, weights: new Float32Array(rows * columns)})));
    }
    const note = (kind, layer, weights, n) => {
      maps[kind][layer].forEach((map, h) => map.weights.set(weights.subarray(h * n, h * n + n), at[kind][layer] * map.columns));
      at[kind][layer] += 1;
    };
    const state = model.start(source, options.broken, note), one = {path: []}, logits = wantLogits && new Float32Array(T * model.vocab);
    for (let t = 0; t < T; t++) {
      one.id = given[t];
      const [row] = model.step([one], state, options.broken, note);
      if (wantLogits) logits.set(row, t * model.vocab);
      await breathe();
    }
    return {logits, attention: maps};
  }

  // What is asked, checked before it begins -----------------------------------------------------------------------------------------

  const DEFAULTS = {beam: 4, alpha: 0.6, maxLength: null, prefix: [], top: 0, attention: false, pads: 0, broken: {}};
  const BREAKS = ["noHeads", "noScale", "noSourceMask", "noPositions", "noResidual", "noNorm", "noCross", "stuckPosition"];

  function known(ids, size, side, mayBeEmpty = false) {
    if (!ids.length && !mayBeEmpty || !ids.every(id => Number.isInteger(id) && id >= 0 && id < size)) throw new Error(`The ${side} has a token that the model doesn't know.`);
  }

  function checked(model, given) {
    const options = {...DEFAULTS, ...given}, whole = (n, low, high) => Number.isInteger(n) && n >= low && n <= high, c = model.config;
    const wrong = Object.keys(options).find(name => !(name in DEFAULTS)) || Object.keys(options.broken).find(name => !BREAKS.includes(name));
    if (wrong) throw new Error(`There is no option called ${wrong}.`);
    if (!whole(options.beam, 1, WIDEST)) throw new Error(`A beam has 1 to ${WIDEST} hypotheses, not ${options.beam}.`);
    if (!whole(options.pads, 0, 100)) throw new Error("Pads are 0 to 100.");
    if (options.maxLength !== null && !whole(options.maxLength, 1, 1000)) throw new Error("An answer has 1 to 1000 tokens.");
    if (!Number.isFinite(options.alpha) || options.alpha < 0) throw new Error("The length penalty's alpha is a number from 0 on.");
    if (!whole(options.top, 0, model.vocab)) throw new Error("Of the likeliest tokens a whole number is shown.");
    if (!options.prefix.every(id => whole(id, UNK, model.vocab - 1))) throw new Error("The answer's beginning has a token that the model doesn't know.");
    const layers = {encoder: c.n_encoder_layers, decoder: c.n_decoder_layers, cross: c.n_decoder_layers};
    for (const [kind, layer, head] of options.broken.noHeads || []) {
      if (!whole(layer, 0, (layers[kind] || 0) - 1) || !whole(head, 0, c.n_heads - 1)) throw new Error(`There is no head ${head} in layer ${layer} of ${kind}.`);
    }
    for (const place of [...options.broken.noResidual || [], ...options.broken.noNorm || []]) {
      const [side, layer, name] = place.split(".");
      if (!whole(+layer, 0, (layers[side] || 0) - 1) || name && !(`${side}.layers.${layer}.${name}_residual` in model.norms)) throw new Error(`There is no sublayer ${place}.`);
    }
    return options;
  }

  // one sentence on what isn't English to the model; "" where there is nothing to say
  function remark(text, translator) {
    const letters = text.match(/\p{L}/gu) || [], latin = text.match(/\p{Script=Latin}/gu) || [];
    if (!text) return "There is nothing to translate yet.";
    if (!letters.length) return "There are no words in this, so what the model says means little.";
    if (latin.length < letters.length / 2) return "The model has learned English only, so what it says of other scripts means little.";
    const unknown = [...new Set(translator.sourceTokens.unknown(text))];
    if (unknown.length) return `This small translator doesn't know ${unknown.slice(0, 3).join(", ")}${unknown.length > 3 ? " and more" : ""}.`;
    return "";
  }

  class Translator {
    constructor(model) {
      const {words, tensors} = model.header;
      this.model = model;
      const merges = tensors.merges && model.whole.buffer.slice(tensors.merges[0], tensors.merges[0] + 2 * tensors.merges[1]);
      this.sourceTokens = words ? new Words(words.source, "en") : new BytePairs(new Uint16Array(merges));
      this.targetTokens = words ? new Words(words.target, words.language) : this.sourceTokens;
      this.about = {name: model.header.name, config: model.config, languages: model.header.languages, kernel: model.kernel, bytes: model.bytes};
    }

    tokens({text}) {
      const length = Array.from(text).length, {sourceTokens} = this;
      if (length > LONGEST) throw new Error(`The text has ${length.toLocaleString("en")} characters, ${LONGEST.toLocaleString("en")} are the most: translate it page by page.`);
      const tidy = readable(text), known = new Map(), [most, easy] = this.model.header.limits;
      const encode = part => known.get(part) || known.set(part, sourceTokens.encode(part)).get(part);
      const parts = pieces(Array.from(tidy), part => encode(part).length, most, easy);
      return {note: remark(tidy, this), parts: parts.map(part => ({text: part, ids: encode(part), pieces: sourceTokens.names(encode(part))}))};
    }

    async answer({ids, options}, event, breathe) {
      const {model, targetTokens} = this, given = checked(model, options);
      known(ids, model.config.source_vocab_size, "source");
      const source = [...ids, ...Array(given.pads).fill(PAD)];
      const limit = given.maxLength ?? source.filter(id => id != PAD).length + 50;
      const found = await (given.beam == 1 ? greedy : beamSearch)(model, targetTokens, source, limit, given, event, breathe);
      const seen = given.attention ? await readAlong(model, source, found.ids, given, breathe, false) : {};
      return {...found, source, text: targetTokens.decode(found.ids), pieces: targetTokens.names(found.ids), attention: seen.attention};
    }

    async translate({text, options}, event, breathe) {
      checked(this.model, options);
      const {note, parts} = this.tokens({text}), done = [];
      for (const [part, {text, ids, pieces}] of parts.entries()) {
        event({kind: "part", part, parts: parts.length, text, ids, pieces});
        const inner = Object.assign(e => event({...e, part}), {wanted: event.wanted});
        const found = await this.answer({ids, options}, inner, breathe);
        event({kind: "said", part, text: found.text});
        done.push({...found, english: text, sourcePieces: this.sourceTokens.names(found.source)});
        await breathe();
      }
      return {text: done.map(part => part.text).join(" "), note, parts: done};
    }

    read({ids, said, options}, event, breathe) {
      const given = checked(this.model, options);
      known(ids, this.model.config.source_vocab_size, "source");
      known(said, this.model.vocab, "answer", true);
      return readAlong(this.model, [...ids, ...Array(given.pads).fill(PAD)], said, given, breathe, true);
    }
  }

  // Questions come as messages, answers go as messages ------------------------------------------------------------------------------

  return function serve(send) {
    const stopped = new Set();
    let model = null, refused = null, translator = null, turn = Promise.resolve(), last = Date.now();
    const pause = new MessageChannel(), waiting = [];
    pause.port1.onmessage = () => { last = Date.now(); waiting.shift()(); };

    function breather(id, patience) {  // lets other messages in, above all the one that says stop
      return async function () {
        if (Date.now() - last > patience) await new Promise(go => { waiting.push(go); pause.port2.postMessage(0); });
        if (stopped.has(id)) throw Object.assign(new Error("This was stopped."), {name: "Stopped"});
      };
    }

    function take({index, base64, plain}) {
      try {
        if (index == 0) model = new Transformer(bytesOf(base64), plain);
        else model.fill(base64);
      } catch (error) {
        refused = refused || error;
      }
    }

    function open() {
      if (!model && refused instanceof RangeError) throw new Error("This device has too little free memory for the translator: close other tabs and try again.");
      if (refused || !model || model.empty.length) throw new Error("The model's file is damaged: reload the page and try again.");
      translator = new Translator(model);
      return translator.about;
    }

    async function answered({id, call, given}) {
      try {
        const event = Object.assign(e => { if (given.wanted) send({id, event: e}); }, {wanted: given.wanted});
        if (call == "open") send({id, done: open()});
        else send({id, done: await translator[call](given, event, breather(id, given.patience ?? 15))});
      } catch (error) {
        send({id, error: error.message, name: error.name});
      }
      stopped.delete(id);
    }

    return function (message) {
      if (message.call == "part") take(message.given);
      else if (message.call == "stop") stopped.add(message.id);
      else turn = turn.then(() => answered(message));  // one after the other
    };
  };
}

// In the page -------------------------------------------------------------------------------------------------------------------------

const here = document.currentScript && document.currentScript.src.replace(/[^/]*$/, "");
const arriving = {}, engines = {};

// where the messages go: a worker made from the text of `core`, or, where no worker may be, the page itself
function connect(inPage, receive) {
  try {
    if (inPage) throw new Error("asked for");
    const text = `const serve = (${core})()(message => postMessage(message)); onmessage = event => serve(event.data);`;
    const address = URL.createObjectURL(new Blob([text], {type: "text/javascript"})), worker = new Worker(address);
    worker.onmessage = event => receive(event.data);
    worker.onerror = event => receive({broken: event.message || "The worker ended."});
    return {worker: true, send: message => worker.postMessage(message), close: () => { worker.terminate(); URL.revokeObjectURL(address); }};
  } catch (error) {
    const serve = core()(message => setTimeout(receive, 0, message));
    return {worker: false, send: message => setTimeout(serve, 0, message), close: () => {}};
  }
}

// one file of the model: a script that calls tlEngine.part; stamp: of the model that is wanted, as its other files have it
function fetchPart(from, name, index, stamp) {
  return new Promise((found, failed) => {
    const script = document.createElement("script");
    arriving[name] = part => found(part);
    script.src = `${from}model-${name}-${index}.js${stamp && `?${stamp}`}`;
    script.onload = () => { script.remove(); failed(new Error("The model's file is damaged.")); };  // too late if it has arrived
    script.onerror = () => { script.remove(); failed(new Error("The model's file could not be loaded; try again.")); };
    document.head.appendChild(script);
  });
}

async function load(name, {from = here, plain = false, inPage = false, progress = () => {}}) {
  const asked = new Map(), engine = {};
  let count = 0, ended = "";
  function receive(message) {
    if (message.broken) {
      ended = message.broken;
      for (const one of asked.values()) one.failed(new Error(message.broken));
      asked.clear();
      return;
    }
    const one = asked.get(message.id);
    if (!one) return;
    if (message.event) { one.event(message.event); return; }
    asked.delete(message.id);
    if (message.error) one.failed(Object.assign(new Error(message.error), {name: message.name}));
    else one.found(message.done);
  }
  const line = connect(inPage, receive);
  const ask = (call, given, event) => new Promise((found, failed) => {
    if (ended) { failed(new Error(ended)); return; }
    asked.set(++count, {found, failed, event});
    line.send({id: count, call, given: {...given, wanted: Boolean(event)}});
  });
  try {
    for (let index = 0, loaded = 0, parts = 1, stamp = "", renewed = 0; index < parts; index++) {
      const part = await fetchPart(from, name, index, stamp);
      if (stamp && part.stamp != stamp) {  // an older model was in a cache, or a newer one has come: once more from the beginning
        if (renewed++) throw new Error("The model was replaced while it was loading: reload the page and try again.");
        [index, loaded, stamp] = [-1, 0, part.stamp];
        continue;
      }
      [parts, stamp] = [part.parts, part.stamp || ""];
      loaded += part.base64.length;
      line.send({call: "part", given: {index, base64: part.base64, plain}});
      progress({loaded, total: part.total});
    }
    engine.about = {...await ask("open", {}), worker: line.worker};
  } catch (error) {
    line.close();
    if (ended && line.worker) return load(name, {from, plain, inPage: true, progress});  // a site may refuse workers, and says so only later
    throw error;
  }
  engine.tokens = text => ask("tokens", {text});
  engine.translate = (text, options, event) => ask("translate", {text, options}, event);
  engine.answer = (ids, options, event) => ask("answer", {ids, options}, event);
  engine.read = (ids, said, options) => ask("read", {ids, said, options});
  engine.stop = () => { for (const id of asked.keys()) line.send({call: "stop", id}); };
  return engine;
}

let queue = Promise.resolve();  // two models are loaded one after the other

window.tlEngine = {
  // the engine of that name; asked for again, the same one
  open(name, options = {}) {
    const key = [name, options.from, options.plain, options.inPage].join(" ");
    if (!engines[key]) {
      engines[key] = queue.then(() => load(name, options)).catch(error => { delete engines[key]; throw error; });
      queue = engines[key].catch(() => {});
    }
    return engines[key];
  },
  // called by the model's files: part `index` of `parts`, `total` letters in all
  part(name, index, parts, total, base64, stamp) {
    if (arriving[name]) arriving[name]({index, parts, total, base64, stamp});
    delete arriving[name];
  },
};
})();
