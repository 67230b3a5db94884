/* The engine on a page: fetched when a button is pressed, and its answers as words with lines between them. Nothing leaves the device.

   A page that wants it says <script src="../_static/live.js"></script>; engine.js and the models come only when they are asked for.

     const engine = await tlLive.engine("tatoeba-fr", {button, progress});   // "pocket" or "tatoeba-fr"
     await engine.translate(text, {beam: 1, attention: true}, event => ...);

   tlLive.engine(name, {button, progress}) -> Promise of what tlEngine.open gives (data/engine/engine.js); asked again, the same one
     button     says how far the loading is, is hidden when it is done, and has its words back when it fails
     progress   a <progress>, shown meanwhile
     It fails with an Error whose message is one sentence for the reader; `tlLive.sentence(error)` makes one of any error.
   tlLive.words(text, "en" | "fr")           -> [{text, from, to}], from and to are places in the text
   tlLive.spans(text, pieces)                -> [[from, to]] of tokens, null for one that has no place (EOS)
   tlLive.looks(said, spans, read, places, rows) -> for each word that is said its weights on the words that are read: a token's weights
                                                are added over the tokens of a word that is read, and averaged over those of a word that is said
   tlLive.mean(heads)                        -> the mean of several heads' weights
   tlLive.calm                               true where the reader wants no motion
*/
window.tlLive = (function () {
"use strict";

const folder = new URL("../engine/", document.currentScript.src).href;
const calm = window.matchMedia("(prefers-reduced-motion: reduce)").matches;

// Loading ------------------------------------------------------------------------------------------------------------------

const opening = {};  // name -> {promise, told}
let script = null;

function fetchEngine() {
  if (!script) script = new Promise((found, failed) => {
    const tag = document.createElement("script");
    tag.src = `${folder}engine.js`;
    tag.onload = () => window.tlEngine ? found() : failed(new Error("This browser is too old to run the translator; the rest of the page works."));
    tag.onerror = () => { tag.remove(); script = null; failed(new Error("The translator could not be loaded: its folder “engine” isn't beside the pages, or the network is gone. Try again.")); };
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

// pieces in their order; one that is half a character, or unknown, takes what lies between its neighbours
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

return {engine, sentence, words, spans, looks, mean, calm};
})();
