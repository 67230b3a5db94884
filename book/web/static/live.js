/* The engine on a page: fetched when a button is pressed, and its answers as words with lines between them. Nothing leaves the device.

   A page that wants it says <script src="../_static/live.js"></script>; engine.js and the models come only when they are asked for.

     const engine = await tlLive.engine("open-fr", {button, progress});   // or "pocket"
     await engine.translate(text, {beam: 1, attention: true}, event => ...);

   tlLive.engine(name, {button, progress}) -> Promise of what tlEngine.open gives (book/web/engine.js); asked again, the same one
     button     says how far the loading is, is hidden when it is done, and has its words back when it fails
     progress   a <progress>, shown meanwhile
     It fails with an Error whose message is one sentence for the reader; `tlLive.sentence(error)` makes one of any error.
   tlLive.words(text, "en" | "fr")           -> [{text, from, to}], from and to are places in the text
   tlLive.spans(text, pieces)                -> [[from, to]] of tokens, null for one that has no place (EOS)
   tlLive.looks(said, spans, read, places, rows) -> for each word that is said its weights on the words that are read: a token's weights
                                                are added over the tokens of a word that is read, and averaged over those of a word that is said
   tlLive.mean(heads)                        -> the mean of several heads' weights
   tlLive.links(weights)                     -> [{row, word, weight}]: row is a word that is said, word one that is read; faint ones are left out
   tlLive.picture(root) -> {show(state, growing), play(state, from, done)}: words that are read over words that are said, with lines between
     root       holds [data-out=en], [data-out=fr] and an svg
     state      {english: [words], french: [words], links, said: so many words are shown, all if left out}; a link that is `strong` is drawn in color
     growing    more words are coming, so leave room
     play       types the words one by one, those before `from` at once; at once all of them where motion is unwelcome
   root.dataset.state                        what a live element does, set by its script: ready, loading the translator, busy, done, or refused
   tlLive.visible(text)                      the text without marks that nobody sees, as the command line removes them
   tlLive.LONGEST                            characters of a text, as engine.js has it
   tlLive.calm                               true where the reader wants no motion
*/
window.tlLive = (function () {
"use strict";

const folder = new URL("../engine/", document.currentScript.src).href, version = new URL(document.currentScript.src).search;
const calm = window.matchMedia("(prefers-reduced-motion: reduce)").matches;

// Loading ------------------------------------------------------------------------------------------------------------------

const opening = {};  // name -> {promise, told}
let script = null;

function fetchEngine() {
  if (!script) script = new Promise((found, failed) => {
    const tag = document.createElement("script");
    tag.src = `${folder}engine.js${version}`;
    tag.onload = () => window.tlEngine ? found() : failed(new Error("This browser is too old to run the translator; the rest of the page works."));
    tag.onerror = () => { tag.remove(); script = null; failed(new Error("The model could not be loaded: its folder “engine” isn't beside the pages, or the network is gone. Try again.")); };
    document.head.appendChild(tag);
  });
  return script;
}

function engine(name, {button, progress} = {}) {
  if (!opening[name]) {
    const one = opening[name] = {told: new Set()};
    const tell = state => one.told.forEach(told => told(state));
    one.promise = fetchEngine().then(() => window.tlEngine.open(name, {from: folder, progress: tell}));
    one.promise.catch(() => { delete opening[name]; });
  }
  const {promise, told} = opening[name], words = button && button.textContent;
  function tell({loaded, total}) {
    if (button) button.textContent = `Loading: ${Math.floor(100 * loaded / total)}%`;
    if (progress) Object.assign(progress, {hidden: false, max: total, value: loaded});
  }
  if (button) {
    if (button.getAttribute("aria-disabled") == "true") return promise;  // pressed twice
    button.setAttribute("aria-disabled", "true");
  }
  tell({loaded: 0, total: 1});
  told.add(tell);
  return promise.then(found => {
    if (button) button.hidden = true;
    return found;
  }, error => {
    if (button) button.textContent = words;
    throw error;
  }).finally(() => {
    told.delete(tell);
    if (button) button.removeAttribute("aria-disabled");
    if (progress) progress.hidden = true;
  });
}

function sentence(error) {
  return error.name == "Stopped" ? "Stopped." : error.message || "Something went wrong; try again.";
}

// Tokens and words ------------------------------------------------------------------------------------------------------------

const W = "\\p{L}\\p{M}\\p{N}_", OTHER = `\\p{P}|[^${W}\\p{P}\\s]+`;
const WORD = {en: new RegExp(`[${W}]+(?:['-][${W}]+)*|${OTHER}`, "gu"), fr: new RegExp(`[${W}]+(?:-[${W}]+)*'?|${OTHER}`, "gu")};

function words(text, language) {
  return Array.from(text.matchAll(WORD[language]), found => ({text: found[0], from: found.index, to: found.index + found[0].length}));
}

// pieces in their order; one that is half a character, or unknown, takes what lies between its neighbors
function spans(text, pieces) {
  const found = [], whole = piece => piece != "<unk>" && piece != "<eos>" && !piece.includes("\ufffd");
  for (let i = 0, at = 0; i < pieces.length; i++) {
    if (pieces[i] == "<eos>") { found.push(null); continue; }
    const next = whole(pieces[i]) ? pieces[i] : pieces.slice(i).find(whole);
    const place = next === undefined ? text.length : text.indexOf(next, at);
    const end = place < 0 ? text.length : next === pieces[i] ? place + next.length : place;
    found.push(next === pieces[i] && place >= 0 ? [place, end] : [at, end]);
    if (whole(pieces[i])) at = end;
  }
  return found;
}

const shares = (word, span) => span && span[0] < word.to && span[1] > word.from;

function looks(said, saidSpans, read, readSpans, rows) {
  const columns = read.map(word => readSpans.flatMap((span, s) => shares(word, span) ? [s] : []));
  return said.map(word => {
    const mine = saidSpans.flatMap((span, t) => shares(word, span) && rows[t] ? [rows[t]] : []);
    return columns.map(all => mine.reduce((sum, row) => sum + all.reduce((more, s) => more + row[s], 0), 0) / (mine.length || 1));
  });
}

function mean(heads) {
  return heads[0].map((_, s) => heads.reduce((sum, head) => sum + head[s], 0) / heads.length);
}

const FAINT = 0.15;  // a link that is fainter isn't drawn

function links(weights) {
  return weights.flatMap((row, r) => row.flatMap((weight, word) => weight >= FAINT ? [{row: r, word, weight}] : []));
}

// Words with lines ---------------------------------------------------------------------------------------------------------------

function picture(root) {
  const english = root.querySelector("[data-out=en]"), french = root.querySelector("[data-out=fr]"), svg = root.querySelector("svg");
  let now = null, room = 1, turn = 0;

  function fill(box, words, said) {
    while (box.children.length > words.length) box.lastChild.remove();
    words.forEach((word, i) => {
      const span = box.children[i] || box.appendChild(document.createElement("span"));
      if (span.textContent != word) span.textContent = word;
      span.classList.toggle("tl-unsaid", i >= said);
    });
  }

  // beside each other, and not over each other, where a row would be too wide
  function lay() {
    root.classList.remove("tl-tall");
    const wide = box => Array.from(box.children).reduce((sum, span) => sum + span.getBoundingClientRect().width + 7, 0);
    root.classList.toggle("tl-tall", Math.max(wide(english) * room, wide(french)) > english.clientWidth);
  }

  function draw() {
    const area = svg.getBoundingClientRect(), tall = root.classList.contains("tl-tall"), lit = new Set();
    svg.setAttribute("viewBox", `0 0 ${area.width} ${area.height}`);
    svg.textContent = "";
    for (const {row, word, weight, strong} of now.links) {
      const from = english.children[word], to = french.children[row];
      if (row >= now.said || !from || !to) continue;
      const a = from.getBoundingClientRect(), b = to.getBoundingClientRect(), path = document.createElementNS(svg.namespaceURI, "path");
      const [x, y, u, v] = tall
        ? [a.right + 4 - area.left, (a.top + a.bottom) / 2 - area.top, b.left - 4 - area.left, (b.top + b.bottom) / 2 - area.top]
        : [(a.left + a.right) / 2 - area.left, a.bottom - area.top, (b.left + b.right) / 2 - area.left, b.top - area.top];
      const bends = tall ? [(x + u) / 2, y, (x + u) / 2, v] : [x, (y + v) / 2, u, (y + v) / 2];
      path.setAttribute("d", `M${x},${y}C${bends},${u},${v}`);
      path.setAttribute("class", strong ? "tl-link-it" : "tl-link");
      path.style.strokeWidth = `${strong ? 3.2 : 0.4 + 2.2 * weight}px`;
      svg.appendChild(path);
      if (strong) lit.add(from).add(to);
    }
    for (const span of [...english.children, ...french.children]) span.classList.toggle("tl-lit", lit.has(span));
  }

  function put(state, growing) {
    now = {...state, said: state.said ?? state.french.length};
    room = growing ? 1.25 : 1;
    fill(english, now.english, now.english.length);
    fill(french, now.french, now.said);
    lay();
    draw();
  }

  function show(state, growing = false) {
    turn++;
    put(state, growing);
  }

  function play(state, from, done = () => {}) {
    const mine = ++turn;
    (function next(said) {
      if (mine != turn) return;
      put({...state, said});
      if (said < state.french.length) setTimeout(next, 190, said + 1);
      else done();
    })(calm ? state.french.length : from);
  }

  const again = () => { if (now && root.clientWidth) { lay(); draw(); } };
  new ResizeObserver(() => requestAnimationFrame(again)).observe(root);
  document.fonts.ready.then(again);
  window.addEventListener("load", again);
  return {show, play};
}

const visible = text => text.replace(/[\u00ad\u200b\ufeff\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "");

return {engine, sentence, words, spans, looks, mean, links, picture, visible, calm, FAINT, LONGEST: 20000};
})();
