/* Inside the model: what the translator in the page does with one sentence, token by token, and what it says when parts are taken out.

   Before its reader asks for the model the page shows `tlInside`, a record of the running sentence that the build made with the Python
   package (book/litbook/live/inside.py). From then on everything comes from the engine (book/web/engine.js, fetched by live.js).

   One object, `shown`, holds what is on the page:
     pieces, ids      of the source                       steps      [{id, piece, p, top: [{id, piece, logP}], forced}], the end included
     attention        {kind: [layer][head] {rows, columns, weights}}
     beam             [[{parent, piece, text, score, state}, ...], ...], a list for each step
     text             the whole answer                    whole      {text, ids, pieces, p}: what the unbroken model says
   `at` is the step that all parts of the page point at, `gone` the switches that are off. The form has in data-state what the page
   does (live.js). */
(function () {
"use strict";

const record = window.tlInside, {most: MOST, pads: PADS} = record, BEAM = 4, ALPHA = 0.6, TOP = 5, PACE = 170, BOS = 1, EOS = 2;
const KINDS = ["encoder", "cross", "decoder"], TITLE = {encoder: "encoder", cross: "cross-attention", decoder: "decoder"};
const NAME = {"<pad>": "pad", "<bos>": "start", "<eos>": "end", "<unk>": "unknown"};
const all = (query, root = document) => Array.from(root.querySelectorAll(query)), one = (query, root = document) => root.querySelector(query);
const block = name => one(`.tl-in[data-block="${name}"]`), out = name => one(`.tl-in [data-out="${name}"]`), button = name => one(`.tl-in [data-do="${name}"]`);
const esc = text => String(text).replace(/[&<>"]/g, letter => ({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})[letter]);
const cut = (text, n) => text.length > n ? text.slice(0, Math.max(1, n - 1)) + "…" : text;
const percent = p => p >= 0.9995 ? "100%" : p >= 0.1 ? `${(100 * p).toFixed(1)}%` : p >= 0.0001 ? `${(100 * p).toFixed(2)}%` : "<0.01%";
const two = number => number.toFixed(2), minus = number => number.toFixed(2).replace("-", "−");

let engine = null, name = record.name, shown = null, target = null, at = 0, opened = {kind: "cross", layer: 0, head: 0}, beamStep = 0;
const gone = new Set();

const word = piece => NAME[piece] || piece.trim() || "␣";

// Tokens as they are named in a drawing: subwords, which carry their spaces, have a dot where they go on a word
function words(pieces) {
  const spaced = pieces.some(piece => piece.startsWith(" ")), letter = /^[\p{L}\p{N}]/u;
  const goesOn = (piece, before = "") => spaced && letter.test(piece) && /[\p{L}\p{N}]$/u.test(before) && !NAME[before];
  return pieces.map((piece, i) => (goesOn(piece, pieces[i - 1]) ? "·" : "") + word(piece));
}

// where a space stands before a token when the answer is written out
function spaces(pieces) {
  const spaced = pieces.some(piece => piece.startsWith(" "));
  return pieces.map((piece, i) => i > 0 && (spaced ? piece.startsWith(" ") : !/^[.,…)]$/.test(piece) && !pieces[i - 1].endsWith("'")));
}
const written = pieces => pieces.map((piece, i) => (spaces(pieces)[i] ? " " : "") + word(piece)).join("");

// The record as `shown` -------------------------------------------------------------------------------------------------------

function fromRecord() {
  const {names, config} = record, probability = logP => Math.exp(logP);
  const steps = record.steps.map(([id, top]) => ({id, piece: names[id], p: probability(top[0][1]), top: top.map(([other, logP]) => ({id: other, piece: names[other], logP}))}));
  const attention = {};
  for (const kind in record.attention) {
    const {shape: [layers, heads, rows, columns], weights} = record.attention[kind], bytes = atob(weights), n = rows * columns;
    attention[kind] = Array.from({length: layers}, (_, l) => Array.from({length: heads}, (_, h) => ({
      rows, columns, weights: Float32Array.from({length: n}, (_, i) => bytes.charCodeAt((l * heads + h) * n + i) / 255)})));
  }
  const beam = record.beam.map(rows => rows.map(([parent, id, score, text, state]) => ({parent, id, piece: names[id], score, text, state})));
  const said = steps.filter(step => step.id != EOS);
  const whole = {text: record.text, ids: said.map(step => step.id), pieces: said.map(step => step.piece), p: said.map(step => step.p)};
  return {english: record.sentence, ids: record.source, pieces: record.pieces, steps, attention, beam, text: record.text, whole, config,
    vocabulary: record.vocabulary, prefix: 0};
}

// a recorded answer as `whole` has it
const recorded = ([text, ids, p]) => ({text, ids, pieces: ids.map(id => record.names[id]), p});
const recordedWithout = key => recorded(record.broken[key]);

// Switches ----------------------------------------------------------------------------------------------------------------------

const headsOf = kind => shown.attention[kind].flatMap((layer, l) => layer.map((_, h) => `noHeads:${kind}.${l}.${h}`));

// the name under which a set of switches was recorded, or undefined
function recordKey(keys) {
  const list = [...keys];
  if (list.length == 1 && record.broken[list[0]]) return list[0];
  if (list.length == 2 && keys.has("noPositions:source") && keys.has("noPositions:target")) return "noPositions:both";
  return KINDS.filter(kind => headsOf(kind).length == list.length && headsOf(kind).every(key => keys.has(key))).map(kind => `noHeads:${kind}`)[0];
}

// the switches as the engine's option `broken`
function brokenBy(keys) {
  const broken = {};
  for (const key of keys) {
    const [part, place] = key.split(":");
    if (part == "noHeads") (broken.noHeads = broken.noHeads || []).push(place.split(".").map((x, i) => i ? +x : x));
    else if (part == "noPositions") broken.noPositions = broken.noPositions ? true : place;
    else if (place) (broken[part] = broken[part] || []).push(place);
    else broken[part] = true;
  }
  return broken;
}

function switchName(key) {
  const [part, place] = key.split(":");
  if (part == "noHeads") { const [kind, l, h] = place.split("."); return `head ${+h + 1} of layer ${+l + 1}, ${TITLE[kind]}`; }
  if (part == "noPositions") return `positional encodings of the ${place}`;
  if (place) { const [side, l] = place.split("."); return `${part == "noNorm" ? "norms" : "residual connections"} of ${side} layer ${+l + 1}`; }
  return one(`[data-key="${key}"]`).getAttribute("aria-label");
}

// Asking the engine ---------------------------------------------------------------------------------------------------------------

let turn = 0, pressed = 0;

// the answer of the model as the switches leave it; `kept` are steps that stand, the last of them chosen by the reader
async function speak(kept = []) {
  const mine = ++turn, asked = target, by = engine, {ids} = asked, pieces = asked.pieces.filter(piece => piece != "<pad>");
  by.stop();
  const broken = brokenBy(gone), pads = broken.noSourceMask ? PADS : 0, given = {maxLength: MOST, broken, pads};
  const steps = kept.slice(), prefix = kept.map(step => step.id).filter(id => id != EOS), ended = kept.length > prefix.length;
  const tell = event => steps.push({id: event.id, piece: event.top[0].piece, p: Math.exp(event.top[0].logP), top: event.top});
  let said, attention;
  if (ended && !prefix.length) [said, attention] = [{text: "", ids: []}, (await by.read(ids, [], given)).attention];
  else {
    said = await by.answer(ids, {...given, beam: 1, top: TOP, attention: true, prefix, maxLength: ended ? prefix.length : MOST}, ended ? undefined : tell);
    attention = said.attention;
  }
  const beam = [];
  if (!ended) await by.answer(ids, {...given, beam: BEAM, alpha: ALPHA, prefix}, event => { if (event.kind == "beam") beam.push(event.rows); });
  let whole = asked.whole;
  if (!whole) whole = gone.size ? await wholeAnswer(ids, {}, 0, by) : answerOf(said.text, steps);
  if (mine != turn) return false;
  shown = Object.assign(asked, {steps, attention, text: said.text, whole, pieces: [...pieces, ...Array(pads).fill("<pad>")], now: answerOf(said.text, steps)});
  if (beam.length) Object.assign(shown, {beam, prefix: prefix.length});
  return true;
}

function answerOf(text, steps) {
  const said = steps.filter(step => step.id != EOS);
  return {text, ids: said.map(step => step.id), pieces: said.map(step => step.piece), p: said.map(step => step.p)};
}

// greedy, with the probability of each token
async function wholeAnswer(ids, broken = {}, pads = 0, by = engine) {
  const steps = [], said = await by.answer(ids, {beam: 1, top: 1, maxLength: MOST, broken, pads},
    event => steps.push({id: event.id, piece: event.top[0].piece, p: Math.exp(event.top[0].logP)}));
  return answerOf(said.text, steps);
}

async function newSentence(text, by = engine, called = name) {
  const {parts, note} = await by.tokens(tlLive.visible(text));
  if (!parts.length) throw new Error("Type an English sentence first.");
  const [{text: english, ids, pieces}] = parts;
  if (ids.length > MOST) throw new Error(`This sentence has ${ids.length} tokens. The figures hold ${MOST}: try a shorter one.`);
  const {config} = by.about;
  if (called != name) gone.clear();  // another model has other heads
  [engine, name] = [by, called];
  target = {...shown, english, ids, pieces, whole: null, config, vocabulary: config.target_vocab_size || config.source_vocab_size};
  return parts.length > 1 ? `A long text is translated in parts, this one in ${parts.length}. The page shows the first. ${note}` : note;
}

const state = now => { block("ask").dataset.state = now; };
const refuse = error => { if (error.name != "Stopped") { say(tlLive.sentence(error)); state("refused"); } };  // stopped is what makes way for another

const say = (text, french = "") => {
  out("say").replaceChildren(text, ...(french ? [Object.assign(document.createElement("span"), {lang: "fr", textContent: french})] : []));
};

async function press(event) {
  if (event) event.preventDefault();
  const wanted = one('.tl-in input[name="in-model"]:checked').value, go = button("go");
  if (go.getAttribute("aria-disabled") == "true") return;  // a model is on its way; its end names the button
  const mine = ++pressed;
  stopAll();
  clearCounts();
  state("loading");
  try {
    const found = await tlLive.engine(wanted, {button: go, progress: out("progress")});
    Object.assign(go, {hidden: false, textContent: "Translate"});
    if (mine != pressed) return;
    state("busy");
    const note = await newSentence(out("text").value, found, wanted);
    block("break").classList.toggle("tl-in-tries", name == record.name);  // the examples are the pocket translator's
    if (!await speak()) return;
    at = 0;
    clearCounts();
    say(`${note ? note + " " : ""}French: `, shown.text);
    draw();
    play(0, telling());
  } catch (error) {
    go.hidden = false;
    refuse(error);
  }
  nameButton();
}

// every change of a switch or of a token ends here
async function again(kept) {
  state("busy");
  try {
    if (engine) say("");  // what stands there is an earlier answer
    if (engine && !await speak(kept)) return;
    at = Math.min(kept ? kept.length - 1 : at, shown.steps.length - 1);
    draw();
    if (kept) play(at, at); else state("done");
  } catch (error) {
    refuse(error);
  }
}

// an example's sentence, with its switch off and all others on
async function tryExample({try: text, off}) {
  stopAll();
  clearCounts();
  state("busy");
  out("text").value = text;
  gone.clear();
  const kind = off.split(":")[1];
  for (const key of KINDS.includes(kind) ? headsOf(kind) : [off]) gone.add(key);
  await newSentence(text);
  await again();
}

function nameButton() {
  const wanted = one('.tl-in input[name="in-model"]:checked'), ready = engine && wanted.value == name;
  button("go").textContent = ready ? "Translate" : `Load ${wanted.dataset.size} and translate`;
}

// Playing -----------------------------------------------------------------------------------------------------------------------------

let playing = null, growing = null;

function stopAll() {
  if (playing || growing) state("done");
  clearInterval(playing);
  clearInterval(growing);
  playing = growing = null;
  out("map-say").setAttribute("aria-live", "polite");
  names();
}

function names() {
  button("play").textContent = playing ? "Pause" : "Play";
  button("grow").textContent = growing ? "Pause" : "Grow the tree";
}

// step by step from `from` to the end, and then to the step `rest`; at once where motion is unwelcome and nobody has asked for it
function play(from, rest, pace = PACE) {
  stopAll();
  if (tlLive.calm && pace == PACE) { pointTo(rest); state("done"); return; }
  state("busy");
  out("map-say").setAttribute("aria-live", "off");  // read out once, when it rests, and not for each token
  pointTo(from);
  playing = setInterval(() => {
    if (at < shown.steps.length - 1) { pointTo(at + 1, true); return; }
    stopAll();
    pointTo(rest);
  }, pace);
  names();
}

function grow() {
  stopAll();
  state("busy");
  beamStep = 0;
  drawBeam();
  growing = setInterval(() => {
    if (beamStep >= shown.beam.length - 1) { stopAll(); return; }
    beamStep += 1;
    drawBeam();
  }, tlLive.calm ? 1200 : 420);
  names();
}

// the step that shows most: a pronoun, or else the token that the model was least sure of
function telling() {
  const pronoun = shown.steps.findIndex((step, i) => i && /^ ?(il|elle|ils|elles)$/.test(step.piece));
  if (pronoun > 0) return pronoun;
  return shown.steps.reduce((best, step, i) => step.p < shown.steps[best].p ? i : best, 0);
}

// Tokens ------------------------------------------------------------------------------------------------------------------------------

function drawTokens() {
  const {pieces, ids, steps} = shown, read = words(pieces), said = words(steps.map(step => step.piece));
  out("read").innerHTML = read.map((text, i) => `<span class="tl-in-chip${pieces[i] == "<pad>" ? " tl-in-pad" : ""}"><b>${esc(text)}</b><small>${ids[i] ?? 0}</small></span>`).join("");
  out("said").innerHTML = said.map((text, i) => `<button type="button" class="tl-in-chip${steps[i].forced ? " tl-in-forced" : ""}" data-step="${i}"
    aria-label="step ${i + 1}: ${esc(text)}, ${esc(percent(steps[i].p))}${steps[i].forced ? ", chosen by you" : ""}"><b lang="fr">${esc(text)}</b><i><i style="width:${(100 * steps[i].p).toFixed(1)}%"></i></i><small>${steps[i].id}</small></button>`).join("");
  roving(out("said"), choice => { stopAll(); pointTo(+choice.dataset.step); });
}

// one of many buttons is in the order of the tab key, arrows lead to the others
function roving(root, chosen, columns = 1) {
  root.onclick = event => { const hit = event.target.closest("button"); if (hit && root.contains(hit)) chosen(hit); };
  root.onkeydown = event => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const list = all("button", root), here = list.indexOf(document.activeElement);
    const to = {ArrowRight: here + 1, ArrowLeft: here - 1, ArrowDown: here + columns, ArrowUp: here - columns, Home: 0, End: list.length - 1}[event.key];
    if (here < 0 || to === undefined) return;
    event.preventDefault();
    const next = list[Math.max(0, Math.min(list.length - 1, to))];
    chosen(next);
    const fresh = all("button", root)[list.indexOf(next)];
    if (fresh) fresh.focus();
  };
}

function mark(root, hit) {
  all("button", root).forEach(each => {
    each.setAttribute("aria-pressed", String(each == hit));
    each.tabIndex = each == hit ? 0 : -1;
  });
}

// The next token ------------------------------------------------------------------------------------------------------------------------

function drawNext() {
  const {steps} = shown, step = steps[at], said = written(steps.slice(0, at).map(one => one.piece));
  out("after").innerHTML = at ? `after <b lang="fr">${esc(cut(said, 400))}</b>` : "after <b>the BOS token</b>";
  out("count").textContent = `decoding step ${at + 1} of ${steps.length}`;
  const sum = step.top.reduce((total, other) => total + Math.exp(other.logP), 0), live = Boolean(engine);
  const held = out("top").contains(document.activeElement) && document.activeElement.dataset.choice;
  out("top").innerHTML = step.top.map((other, i) => {
    const p = Math.exp(other.logP), can = live && (other.id >= 3 || other.id == EOS), taken = other.id == step.id;
    const inner = `<b lang="fr">${esc(word(other.piece))}</b><i><i style="width:${(100 * p).toFixed(2)}%"></i></i><span>${esc(percent(p))}</span>`;
    return can ? `<button type="button" data-choice="${i}" class="tl-in-bar" aria-pressed="${taken}" aria-label="${esc(word(other.piece))}, ${esc(percent(p))}${taken ? ", chosen" : ": choose this instead"}">${inner}</button>`
      : `<span class="tl-in-bar" data-taken="${taken}">${inner}</span>`;
  }).join("");
  if (held) { const same = one(`[data-choice="${held}"]`, out("top")); if (same) same.focus({preventScroll: true}); }
  const rest = Math.max(0, 1 - sum);
  out("sum").textContent = `These five have probability ${percent(sum)}. The other ${(shown.vocabulary - step.top.length).toLocaleString("en")} tokens share ${rest < 0.00005 ? "less than 0.01%" : percent(rest)}.`;
  const forced = steps.some(one => one.forced);
  button("own").hidden = !forced;
  out("hint").textContent = live ? (forced ? "The marked token was your choice; what follows is the model's." : "Choose another token, and generation continues from there.")
    : `Load the model to choose another token here.`;
}

function choose(i) {
  const step = shown.steps[at], other = step.top[i];
  if (other.id == step.id || shown != target) return;  // another sentence is on its way
  stopAll();
  say("");
  again([...shown.steps.slice(0, at), {id: other.id, piece: other.piece, p: Math.exp(other.logP), top: step.top, forced: true}]);
}

// Attention -------------------------------------------------------------------------------------------------------------------------------

// squares whose area is the weight
function squares(map, c, least, x0 = 0, y0 = 0) {
  let path = "";
  for (let i = 0; i < map.weights.length; i++) {
    const w = map.weights[i];
    if (w < least) continue;
    const r = c * Math.sqrt(Math.min(1, w)) * 0.96, x = x0 + (i % map.columns + 0.5) * c - r / 2, y = y0 + (Math.floor(i / map.columns) + 0.5) * c - r / 2;
    path += `M${x.toFixed(1)} ${y.toFixed(1)}h${r.toFixed(1)}v${r.toFixed(1)}h-${r.toFixed(1)}z`;
  }
  return path;
}

const headName = (kind, l, h) => `${TITLE[kind]}, layer ${l + 1}, head ${h + 1}`;
const isGone = (kind, l, h) => gone.has(`noHeads:${kind}.${l}.${h}`);

function drawHeads() {
  for (const kind of KINDS) {
    const layers = shown.attention[kind], heads = layers[0].length, root = out(`heads-${kind}`);
    root.style.setProperty("--heads", heads);
    root.innerHTML = layers.map((layer, l) => `<span class="tl-in-layer">${l + 1}</span>` + layer.map((map, h) => {
      const c = 6, off = isGone(kind, l, h);
      return `<button type="button" data-head="${l}.${h}"${off ? ' class="tl-in-off"' : ""} aria-label="${headName(kind, l, h)}${off ? ", ablated" : ""}: ${esc(strongestOf(kind, l, h))}">
        <svg viewBox="0 0 ${map.columns * c} ${map.rows * c}" preserveAspectRatio="none" aria-hidden="true"><path d="${squares(map, c, 0.04)}"/></svg></button>`;
    }).join("")).join("");
    roving(root, hit => { const [l, h] = hit.dataset.head.split(".").map(Number); opened = {kind, layer: l, head: h}; drawMap(); }, heads);
  }
}

const rowsOf = kind => kind == "encoder" ? words(shown.pieces) : [...words(shown.steps.map(step => step.piece)), "…"];  // … where it was stopped
const columnsOf = kind => kind == "decoder" ? words(["<bos>", ...shown.steps.map(step => step.piece)]) : words(shown.pieces);

function strongestOf(kind, l, h) {
  const {weights, columns, rows} = shown.attention[kind][l][h], i = weights.indexOf(weights.reduce((a, b) => Math.max(a, b), 0));
  return rows ? `${rowsOf(kind)[Math.floor(i / columns)]} to ${columnsOf(kind)[i % columns]}, ${two(weights[i])}` : "";
}

let cursor = null;  // [row, column] of the large map

function drawMap() {
  const {kind, layer, head} = opened, map = shown.attention[kind][layer] && shown.attention[kind][layer][head];
  if (!map) { opened = {kind: "cross", layer: shown.attention.cross.length - 1, head: 0}; drawMap(); return; }
  if (cursor && !(cursor[0] < map.rows && cursor[1] < map.columns)) cursor = null;
  for (const other of KINDS) {
    const root = out(`heads-${other}`), hit = kind == other ? one(`[data-head="${layer}.${head}"]`, root) : null;
    mark(root, hit);
    if (!hit) one("button", root).tabIndex = 0;
  }
  const holder = out("map"), wide = Math.max(280, holder.clientWidth || 640), rows = rowsOf(kind).slice(0, map.rows), columns = columnsOf(kind).slice(0, map.columns);
  const small = wide < 480, letters = small ? 9 : 13, left = 14 + (small ? 6.4 : 7.2) * Math.min(letters, Math.max(...rows.map(text => text.length)));
  const c = Math.min(small ? 26 : 34, (wide - left - 30) / map.columns), step = Math.ceil(12 / c), top = 14 + 6.1 * Math.min(12, Math.max(...columns.map(text => text.length)));
  const width = left + map.columns * c + 30, height = top + map.rows * c + 6, picked = kind == "encoder" ? null : Math.min(at, map.rows - 1);
  let svg = `<rect class="tl-in-frame" x="${left}" y="${top}" width="${map.columns * c}" height="${map.rows * c}"/>`;
  if (picked !== null) svg += `<rect class="tl-in-band" x="0" y="${top + picked * c}" width="${left + map.columns * c}" height="${c}"/>`;
  svg += `<path class="tl-in-weights" d="${squares(map, c, 0.004, left, top)}"/>`;
  rows.forEach((text, r) => {
    if (r % step && r != picked) return;
    svg += `<text x="${left - 8}" y="${top + (r + 0.5) * c + 4.5}" text-anchor="end"${r == picked ? ' class="tl-in-strong"' : ""}>${esc(cut(text, letters))}</text>`;
  });
  columns.forEach((text, s) => {
    if (s % step) return;
    svg += `<text transform="translate(${left + (s + 0.5) * c + 3} ${top - 8}) rotate(-55)"${cursor && cursor[1] == s ? ' class="tl-in-strong"' : ""}>${esc(cut(text, 12))}</text>`;
  });
  if (cursor) svg += `<rect class="tl-in-cursor" x="${left + cursor[1] * c}" y="${top + cursor[0] * c}" width="${c}" height="${c}"/>`;
  holder.innerHTML = `<svg viewBox="0 0 ${width} ${height}" style="max-width:${width}px" aria-hidden="true" data-left="${left}" data-top="${top}" data-c="${c}">${svg}</svg>`;
  holder.dataset.kind = kind;
  out("map-name").textContent = headName(kind, layer, head);
  tellMap();
}

function tellMap() {
  const {kind, layer, head} = opened, {weights, columns, rows} = shown.attention[kind][layer][head], names = columnsOf(kind), left = rowsOf(kind);
  const off = isGone(kind, layer, head) ? " This head is ablated: its weights are still computed, but its output isn't used." : "";
  if (cursor && cursor[0] < rows && cursor[1] < columns) {
    out("map-say").textContent = `“${left[cursor[0]]}” puts ${two(weights[cursor[0] * columns + cursor[1]])} on “${names[cursor[1]]}”.${off}`;
    return;
  }
  const row = kind == "encoder" ? Math.floor(weights.indexOf(weights.reduce((a, b) => Math.max(a, b), 0)) / columns) : Math.min(at, rows - 1);
  const found = Array.from(weights.subarray(row * columns, (row + 1) * columns), (w, s) => [w, s]).sort((a, b) => b[0] - a[0]).slice(0, 3);
  out("map-say").textContent = `${kind == "encoder" ? `“${left[row]}” attends` : `While it generates “${left[row]}”, the model attends`} to ${found.map(([w, s]) => `“${names[s]}” ${two(w)}`).join(", ")}.${off}`;
}

function mapPlace(event) {
  const svg = one("svg", out("map")), box = svg.getBoundingClientRect(), k = svg.viewBox.baseVal.width / box.width, map = shown.attention[opened.kind][opened.layer][opened.head];
  const s = Math.floor(((event.clientX - box.left) * k - svg.dataset.left) / svg.dataset.c), r = Math.floor(((event.clientY - box.top) * k - svg.dataset.top) / svg.dataset.c);
  return r >= 0 && r < map.rows && s < map.columns ? [r, Math.max(0, s), s >= 0] : null;
}

function listenToMap() {
  const holder = out("map");
  holder.addEventListener("pointermove", event => {
    const place = mapPlace(event), next = place && place[2] ? place.slice(0, 2) : null;
    if (String(next) != String(cursor)) { cursor = next; drawMap(); }
  });
  holder.addEventListener("pointerleave", () => { if (cursor) { cursor = null; drawMap(); } });
  holder.addEventListener("click", event => {
    const place = mapPlace(event);
    if (place && opened.kind != "encoder") { stopAll(); pointTo(place[0]); }
  });
  holder.addEventListener("keydown", event => {
    const move = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Escape: null}[event.key];
    if (move === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const map = shown.attention[opened.kind][opened.layer][opened.head], [r, s] = cursor || [opened.kind == "encoder" ? 0 : at, 0];
    cursor = move && (cursor ? [Math.max(0, Math.min(map.rows - 1, r + move[0])), Math.max(0, Math.min(map.columns - 1, s + move[1]))] : [r, s]);
    drawMap();
  });
}

// The beam -----------------------------------------------------------------------------------------------------------------------------------

const penalty = length => ((5 + length) / 6) ** ALPHA;

// rows with their places: open ones in k lanes on the left, best first, the others on the right
function lanes(beam) {
  let before = [];
  return beam.map((rows, t) => {
    const open = rows.filter(row => row.state == "open"), others = rows.filter(row => row.state != "open").sort((a, b) => (a.state == "cut") - (b.state == "cut"));
    const placed = rows.map(row => ({...row, t, lane: row.state == "open" ? open.indexOf(row) : BEAM + others.indexOf(row), from: before[row.parent] || null}));
    before = placed.filter(row => row.state == "open").sort((a, b) => a.lane - b.lane);
    return placed;
  });
}

function drawBeam() {
  const steps = lanes(shown.beam), last = Math.min(beamStep, steps.length - 1), flat = steps.slice(0, last + 1).flat(), length = shown.prefix;
  const ended = flat.filter(row => row.state == "ended"), final = last == steps.length - 1, value = row => row.score / penalty(length + row.t + 1);
  const best = final ? ended.reduce((top, row) => !top || value(row) > value(top) ? row : top, null) || steps[last].find(row => row.lane == 0) : null;
  const alive = new Set(), winner = new Set();
  for (const row of [...steps[last].filter(one => one.state == "open" && !final), ...ended]) for (let node = row; node; node = node.from) alive.add(node);
  for (let node = best; node; node = node.from) { winner.add(node); alive.add(node); }
  const holder = out("tree"), wide = Math.max(300, holder.clientWidth || 660), small = wide < 560, margin = small ? 16 : 26, H = small ? 38 : 40;
  const narrow = small ? 13 : 52, ranks = ended.slice().sort((a, b) => value(b) - value(a)), lane = (wide - margin - BEAM * narrow) / BEAM, x = row => row.lane < BEAM ? margin + (row.lane + 0.5) * lane : margin + BEAM * lane + (row.lane - BEAM + 0.5) * narrow;
  const y = row => 46 + row.t * H, letters = Math.floor((lane - 8) / (small ? 6.4 : 7.4)), tall = 46 + last * H + 26, rootX = margin + 0.5 * lane;
  let edges = "", marks = "";
  const order = flat.slice().sort((a, b) => winner.has(a) - winner.has(b) || alive.has(a) - alive.has(b));
  for (const row of order) {
    const now = row.t == last && !final, kind = winner.has(row) ? "best" : row.state == "cut" ? "cut" : alive.has(row) ? "alive" : "dead";
    const [x1, y1, x2, y2] = [row.from ? x(row.from) : rootX, row.from ? y(row.from) + 9 : 22, x(row), y(row) - 10], mid = (y1 + y2) / 2;
    if (kind != "cut" || now) edges += `<path class="tl-in-edge tl-in-${kind}" d="M${x1.toFixed(1)} ${y1.toFixed(1)}C${x1.toFixed(1)} ${mid.toFixed(1)} ${x2.toFixed(1)} ${mid.toFixed(1)} ${x2.toFixed(1)} ${y2.toFixed(1)}"/>`;
    const title = `<title>${esc(row.text || word(row.piece))} ${minus(row.score)}</title>`;
    if (row.state == "ended") {
      const half = small ? 6 : 23;
      marks += `<g class="tl-in-node tl-in-${kind}">${title}<rect x="${(x2 - half).toFixed(1)}" y="${y(row) - 10}" width="${2 * half}" height="20" rx="${small ? 2 : 4}"/><text x="${
        x2.toFixed(1)}" y="${y(row) + 4.5}" text-anchor="middle">${small ? ranks.indexOf(row) + 1 : minus(value(row))}</text></g>`;
    } else if (row.state == "cut") {
      marks += `<g class="tl-in-node tl-in-cut">${title}<text x="${x2}" y="${y(row) + 4}" text-anchor="middle">${small ? "×" : esc(cut(word(row.piece), 7))}</text></g>`;
    } else {
      const text = cut(word(row.piece), letters), half = Math.min(lane / 2 - 2, 6 + text.length * (small ? 3.3 : 3.9));
      marks += `<g class="tl-in-node tl-in-${kind}${now ? " tl-in-now" : ""}">${title}<rect x="${(x2 - half).toFixed(1)}" y="${y(row) - 11}" width="${(2 * half).toFixed(1)}" height="22" rx="5"/><text x="${x2.toFixed(1)}" y="${y(row) + 4.5}" text-anchor="middle">${esc(text)}</text></g>`;
    }
  }
  const rule = steps.slice(0, last + 1).map((_, t) => small && t % 2 && t < last ? "" : `<text class="tl-in-count" x="0" y="${50 + t * H}">${length + t + 1}</text>`).join("");
  holder.innerHTML = `<svg viewBox="0 0 ${wide} ${tall}"${small ? ' class="tl-in-small"' : ""} aria-hidden="true"><text class="tl-in-root" x="${rootX}" y="16" text-anchor="middle">${length ? "…" : "start"}</text>${edges}${rule}${marks}</svg>`;
  const slider = out("beam-step");
  slider.max = steps.length;
  slider.value = last + 1;
  slider.setAttribute("aria-valuetext", `step ${last + 1} of ${steps.length}`);
  out("beam-count").textContent = `${last + 1} of ${steps.length}`;
  const open = steps[last].filter(row => row.state == "open"), list = final ? ranks : open;
  out("beam-head").textContent = final ? (ended.length ? "Finished hypotheses, with the score divided by the length penalty; the first is the output" : "No hypothesis is finished; the best unfinished one is the output") : "Unfinished hypotheses after this step, with the sum of the log-probabilities";
  out("beam-list").innerHTML = (list.length ? list : [best]).slice(0, 6).map(row => `<li><span lang="fr">${esc(row.text)}</span> <b>${minus(final ? value(row) : row.score)}</b></li>`).join("");
}

// Break it -------------------------------------------------------------------------------------------------------------------------------------

// which ids of b aren't in the longest common subsequence with a, and which of a
function changes(a, b) {
  const table = Array.from({length: a.length + 1}, () => new Int16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) for (let j = b.length - 1; j >= 0; j--) table[i][j] = a[i] == b[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
  const lost = a.map(() => true), fresh = b.map(() => true), pairs = [];
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i] == b[j]) { lost[i] = fresh[j] = false; pairs.push([i++, j++]); } else if (table[i + 1][j] >= table[i][j + 1]) i++; else j++;
  }
  return {lost, fresh, pairs};
}

function answerRow(answer, marked, className) {
  const apart = spaces(answer.pieces);
  return answer.pieces.map((piece, i) => {
    const text = esc(word(piece)), hit = marked && marked[i];
    return `${apart[i] ? " " : ""}<span class="tl-in-word${hit ? ` ${className}` : ""}">${hit ? `<mark>${text}</mark>` : text}<i><i style="width:${(100 * answer.p[i]).toFixed(1)}%"></i></i></span>`;
  }).join("") || "<em>nothing</em>";
}

function drawSwitches() {
  for (const each of all("[data-key]", block("break"))) each.setAttribute("aria-checked", String(!gone.has(each.dataset.key)));
  for (const kind of KINDS) {
    const every = headsOf(kind).every(key => gone.has(key)), root = one(`[data-all="${kind}"]`);
    root.setAttribute("aria-checked", String(!every));
  }
}

function drawBreak() {
  drawSwitches();
  const {whole} = shown, now = !gone.size ? null : engine ? shown.now : recordedWithout(recordKey(gone));
  button("mend").hidden = !gone.size;
  out("gone").textContent = !gone.size ? "Nothing is ablated." : `Ablated: ${gone.size > 3 ? `${gone.size} components` : [...gone].map(switchName).join("; ")}.`;
  out("banner").hidden = !(gone.size && engine);
  if (!now) {
    out("whole").innerHTML = answerRow(whole);
    out("now").innerHTML = "";
    one(".tl-in-now-row").hidden = true;
    out("verdict").textContent = "The bar under a token is its probability. Ablate a component.";
    return;
  }
  const {lost, fresh, pairs} = changes(whole.ids, now.ids), n = fresh.filter(Boolean).length;
  one(".tl-in-now-row").hidden = false;
  out("whole").innerHTML = answerRow(whole, lost, "tl-in-lost");
  out("now").innerHTML = answerRow(now, fresh, "tl-in-fresh");
  const fall = pairs.reduce((top, [i, j]) => whole.p[i] - now.p[j] > top[0] ? [whole.p[i] - now.p[j], i, j] : top, [0, -1, -1]);
  const falls = fall[0] >= 0.005 ? ` ${n ? "Of the tokens that stay, the" : "The"} probability of “${words(whole.pieces)[fall[1]]}” falls most, from ${percent(whole.p[fall[1]])} to ${percent(now.p[fall[2]])}.` : n ? "" : " No probability falls by half a percentage point.";
  const less = lost.filter(Boolean).length;
  out("verdict").textContent = (n || less ? `New: ${n} of ${now.ids.length} tokens. Lost: ${less} of ${whole.ids.length}.${now.ids.length >= MOST ? ` Generation was stopped after ${MOST}.` : ""}` : "The same tokens.") + falls;
}

function flip(keys, off) {
  stopAll();
  clearCounts();
  const before = new Set(gone);
  for (const key of keys) if (off) gone.add(key); else gone.delete(key);
  if (!engine && gone.size && !recordKey(gone)) {  // the record knows one switch at a time
    gone.clear();
    if (off) keys.forEach(key => gone.add(key)); else before.forEach(key => { if (!keys.includes(key)) gone.add(key); });
    if (gone.size && !recordKey(gone)) gone.clear();
  }
  drawSwitches();  // at once: a second press must not read the old state
  again();
}

// under each switch a sentence that it breaks, as recorded; the words that differ are marked
function drawExamples() {
  for (const root of all("[data-example]")) {
    const [text, ...both] = record.examples[root.dataset.example], [whole, now] = both.map(recorded), {fresh} = changes(whole.ids, now.ids);
    const apart = spaces(now.pieces), list = now.pieces.map(word);
    const some = list.slice(0, 14).map((text, i) => (apart[i] ? " " : "") + (fresh[i] ? `<mark>${esc(text)}</mark>` : esc(text))).join("");
    root.innerHTML = `<p class="tl-in-example"><q lang="en">${esc(text)}</q> <span lang="fr">${esc(whole.text)}</span> <span class="tl-in-arrow">without${root.dataset.name ? ` ${root.dataset.name}` : ""}</span>
      <span lang="fr">${some}${list.length > 14 ? " …" : ""}</span> <button type="button" data-try="${esc(text)}" data-off="${root.dataset.example}" class="tl-in-tried">Try it</button></p>`;
  }
}

let built = "";
const sizes = () => KINDS.map(kind => [shown.attention[kind].length, shown.attention[kind][0].length]).join();

// the switches that depend on the model's size: heads as a grid, layers as a row
function buildSwitches() {
  const grid = kind => shown.attention[kind].map((layer, l) => `<span class="tl-in-layer">${l + 1}</span>` + layer.map((_, h) =>
    `<button type="button" role="switch" aria-checked="true" data-key="noHeads:${kind}.${l}.${h}" aria-label="head ${h + 1} of layer ${l + 1}, ${TITLE[kind]}"></button>`).join("")).join("");
  for (const kind of KINDS) {
    const root = out(`off-${kind}`);
    root.style.setProperty("--heads", shown.attention[kind][0].length);
    root.innerHTML = grid(kind);
  }
  for (const part of ["noResidual", "noNorm"]) {
    out(part).innerHTML = ["encoder", "decoder"].map(side => `<div><span>${side}</span>` + shown.attention[side].map((_, l) =>
      `<button type="button" role="switch" aria-checked="true" data-key="${part}:${side}.${l}" aria-label="${part == "noNorm" ? "norms" : "residual connections"} of ${side} layer ${l + 1}">${l + 1}</button>`).join("") + "</div>").join("");
  }
  built = sizes();
}

// each head off by itself: how many tokens change
let counting = 0;
function clearCounts() {
  counting += 1;
  out("heads-say").textContent = "";
  all('[data-key^="noHeads"]').forEach(each => { each.textContent = ""; each.removeAttribute("data-n"); each.setAttribute("aria-label", switchName(each.dataset.key)); });
}

async function tryHeads() {
  if (shown != target) return;
  stopAll();
  clearCounts();
  state("busy");
  const mine = counting, keys = KINDS.flatMap(headsOf);
  let changed = 0, most = [-1, ""];
  for (const key of keys) {
    const now = engine ? await wholeAnswer(shown.ids, brokenBy([key])) : recordedWithout(key);
    if (mine != counting) return;
    const {fresh, lost, pairs} = changes(shown.whole.ids, now.ids);
    const n = Math.max(fresh.filter(Boolean).length, lost.filter(Boolean).length), fall = pairs.reduce((top, [i, j]) => Math.max(top, shown.whole.p[i] - now.p[j]), 0);
    const hit = one(`[data-key="${key}"]`), weight = n + fall;
    hit.dataset.n = n ? "words" : fall >= 0.1 ? "some" : "none";
    hit.textContent = n || (fall >= 0.1 ? Math.round(100 * fall) + "%" : "·");
    hit.setAttribute("aria-label", `${switchName(key)}: alone ${n ? `${n} tokens change` : `no token changes, a probability falls by ${percent(fall)}`}`);
    changed += n > 0;
    if (weight > most[0]) most = [weight, key];
  }
  out("heads-say").textContent = `Ablated alone, ${changed} of the ${keys.length} heads change${changed == 1 ? "s" : ""} a token; a number says how many. A percentage is how many points the probability of one token falls; a dot is less than 10 points. Largest effect: ${switchName(most[1])}.`;
  state("done");
}

// The whole page ---------------------------------------------------------------------------------------------------------------------------------

function pointTo(step, unsaid) {
  at = step;
  const root = out("said");
  mark(root, one(`[data-step="${at}"]`, root));
  all("button", root).forEach(each => each.classList.toggle("tl-in-unsaid", Boolean(unsaid && playing) && +each.dataset.step > at));
  drawNext();
  drawMap();
}

function draw() {
  if (built != sizes()) buildSwitches();
  beamStep = shown.beam.length - 1;
  drawTokens();
  drawHeads();
  drawBeam();
  drawBreak();
  pointTo(at);
  out("vocab").textContent = shown.config ? `${name == "pocket" ? "The pocket model" : "The default model"}: ${shown.config.n_encoder_layers} + ${shown.config.n_decoder_layers} layers, ${shown.config.n_heads} heads, d_model ${shown.config.d_model}, vocabulary size ${shown.vocabulary.toLocaleString("en")}.` : "";
}

// an address like inside.html#noScale comes with that switch turned
function preset() {
  const place = document.getElementById(location.hash.slice(1)), keys = place && place.dataset.preset;
  if (!keys) return;
  const list = keys == "encoder" ? headsOf("encoder") : keys.split(" ");
  gone.clear();
  flip(list, true);
  const show = () => {  // below the theme's header and the two answers, which stay in view
    place.style.scrollMarginTop = `${one(".tl-in-result").offsetHeight + 80}px`;
    place.scrollIntoView({behavior: "instant"});
  };
  show();
  window.addEventListener("load", show);
  document.fonts.ready.then(show);
}

function listen() {
  one("form", block("ask")).addEventListener("submit", press);
  out("text").addEventListener("keydown", event => { if (event.key == "Enter" && !event.shiftKey && !event.isComposing) press(event); });
  all('input[name="in-model"]').forEach(each => each.addEventListener("change", nameButton));
  button("play").addEventListener("click", () => playing ? stopAll() : play(at >= shown.steps.length - 1 ? 0 : at, shown.steps.length - 1, 600));
  button("back").addEventListener("click", () => { stopAll(); pointTo(Math.max(0, at - 1)); });
  button("on").addEventListener("click", () => { stopAll(); pointTo(Math.min(shown.steps.length - 1, at + 1)); });
  out("top").addEventListener("click", event => { const hit = event.target.closest("button"); if (hit) choose(+hit.dataset.choice); });
  button("own").addEventListener("click", () => { stopAll(); again(); button("play").focus({preventScroll: true}); });
  button("grow").addEventListener("click", () => growing ? stopAll() : grow());
  out("beam-step").addEventListener("input", event => { stopAll(); beamStep = event.target.value - 1; drawBeam(); });
  block("break").addEventListener("click", event => {
    const hit = event.target.closest("[data-key], [data-all], [data-try]");
    if (!hit) return;
    if (hit.dataset.try) { tryExample(hit.dataset).catch(refuse); return; }
    const keys = hit.dataset.key ? [hit.dataset.key] : headsOf(hit.dataset.all);
    flip(keys, hit.getAttribute("aria-checked") == "true");
  });
  all('[data-do="mend"], [data-do="mend-top"]').forEach(each => each.addEventListener("click", () => { gone.clear(); clearCounts(); stopAll(); again(); one(".tl-in-result").focus({preventScroll: true}); }));  // it hides itself
  button("heads").addEventListener("click", () => { tryHeads().catch(refuse); });
  listenToMap();
  window.addEventListener("hashchange", preset);
  let wide = window.innerWidth;
  window.addEventListener("resize", () => { if (window.innerWidth != wide) { wide = window.innerWidth; drawMap(); drawBeam(); } });
}

shown = target = fromRecord();
opened = {kind: "cross", layer: shown.attention.cross.length - 1, head: 0};
at = telling();
listen();
drawExamples();
draw();
nameButton();
state("ready");
preset();
})();
