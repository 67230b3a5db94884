/* The first page: the running sentence with its switch, and a field for any sentence. Both show what was recorded when the page was built
   (book/litbook/live/first_page.py) until their reader asks for the translator itself; from then on everything is computed on the device. */
(function () {
"use strict";

const EMOJI = /(?:[\p{Emoji_Presentation}\p{Emoji_Modifier}\p{Regional_Indicator}]|\p{Extended_Pictographic}\ufe0f|\ufe0f?\u20e3)[\p{Emoji_Modifier}\ufe0f\u200d\u{e0020}-\u{e007f}]*/gu;
const PACE = 60;  // ms between two tokens, where one sentence is asked: slow enough to be seen

const within = root => ({
  out: name => root.querySelector(`[data-out="${name}"]`),
  button: name => root.querySelector(`[data-do="${name}"]`),
});

// what a screen reader says, once, and what is written under the words; `state` is what the element does from now on (live.js)
function tell(root, said, note, state) {
  const {out} = within(root);
  root.dataset.state = state;
  out("said").replaceChildren(...(said ? ["French: ", Object.assign(document.createElement("span"), {lang: "fr", textContent: said}), " "] : []));
  (out("note") || out("say")).textContent = note;
}

// The running sentence ------------------------------------------------------------------------------------------------------

function runningSentence(root) {
  const {cases, menus} = JSON.parse(root.dataset.first), {out, button} = within(root), view = tlLive.picture(root);
  const switches = Array.from(root.querySelectorAll(".tl-switch button")), [TIRED, WIDE] = switches.map(one => one.textContent);
  const nouns = list => new Map(list.map(([english, french, gender]) => [english, {french, gender}]));
  const firsts = nouns(menus.first), seconds = nouns(menus.second), known = {};
  const wanted = {first: "animal", second: "street", adjective: TIRED};
  let engine = null, turn = 0, before = cases[0];

  const sentence = ({first, second, adjective}) => `The ${first} didn't cross the ${second} because it was too ${adjective}.`;
  const withSpaces = words => words.join(" ").replace(/ ([.,])/g, "$1").replace(/' /g, "'");

  // as looks_of has it: the first layer's mean for every word, the last layer's first head for the pronoun
  function looksOf({pieces, sourcePieces, attention}) {
    const english = sourcePieces.slice(0, -1), pronoun = pieces.findIndex(word => word == "il" || word == "elle");
    const row = (map, r) => Array.from(map.weights.subarray(r * map.columns, r * map.columns + english.length));
    const strongest = (weights, r, strong) => {
      const word = weights.indexOf(Math.max(...weights));
      return {row: r, word, weight: weights[word], strong};
    };
    const links = pieces.map((_, r) => strongest(tlLive.mean(attention.cross[0].map(map => row(map, r))), r)).filter(link => link.row != pronoun && link.weight >= tlLive.FAINT);
    if (pronoun < 0) return {english, french: pieces, links, note: "This output has neither il nor elle."};
    const seen = strongest(row(attention.cross[attention.cross.length - 1][0], pronoun), pronoun, true);
    return {english, french: pieces, links: [...links, seen], pronoun,
      note: `While it generates ${pieces[pronoun]}, one cross-attention head of the last layer gives ${english[seen.word]} ${Math.round(100 * seen.weight)}% of its attention weight.`};
  }

  // what the grammar that made the corpus wants, since it knows which noun an adjective is about
  function grammar({first, second, adjective}, {french, pronoun}) {
    const name = menus.ofFirst.includes(adjective) ? first : second, noun = name == first ? firsts.get(first) : seconds.get(second);
    const right = noun.gender == "m" ? "il" : "elle", kind = noun.gender == "m" ? "masculine" : "feminine";
    if (french[pronoun] == right) return ` Correct: ${adjective} describes the ${name}, and ${noun.french} is ${kind}.`;
    return ` The correct pronoun is ${right}: ${adjective} describes the ${name}, and ${noun.french} is ${kind}.`;
  }

  async function caseOf(asked) {
    const text = sentence(asked);
    if (!engine) return cases[asked.adjective == TIRED ? 0 : 1];
    if (!known[text]) {
      const {parts} = await engine.translate(text, {attention: true}), found = looksOf(parts[0]);
      known[text] = {...found, note: found.note + grammar(asked, found)};
    }
    return known[text];
  }

  async function say(change) {
    const mine = ++turn, asked = Object.assign(wanted, change);
    switches.forEach(one => one.setAttribute("aria-pressed", String(one.textContent == asked.adjective)));
    for (const menu of root.querySelectorAll("select")) menu.value = asked[menu.name];
    root.dataset.state = "busy";
    try {
      const found = await caseOf({...asked});
      if (mine != turn) return;
      let same = 0;
      while (same < found.french.length && found.french[same] == before.french[same]) same++;
      before = found;
      view.play(found, same, () => tell(root, withSpaces(found.french), found.note, "done"));
    } catch (error) {
      if (mine == turn) tell(root, "", tlLive.sentence(error), "refused");
    }
  }

  function menu(name, words, label) {
    const made = document.createElement("select");
    made.name = name;
    made.setAttribute("aria-label", label);
    for (const [group, list] of words) {
      const into = group ? made.appendChild(Object.assign(document.createElement("optgroup"), {label: group})) : made;
      for (const word of list) into.append(new Option(word, word));
    }
    made.value = wanted[name];
    made.addEventListener("change", () => say({[name]: made.value}));
    return made;
  }

  function goLive(found) {
    engine = found;
    out("begin").replaceChildren("The ", menu("first", [["", firsts.keys()]], "who didn't cross"), " didn't cross the ",
      menu("second", [["", seconds.keys()]], "what wasn't crossed"), " because it was too");
    root.querySelector(".tl-first-menus").replaceChildren("or ", menu("adjective", [["of who didn't cross", menus.ofFirst], ["of what wasn't crossed", menus.ofSecond]], "too what"));
    root.querySelector(".tl-first-menus").hidden = false;
    out("how").textContent = "Live: computed on this device, with beam size 4.";
    say({});
  }

  button("load").addEventListener("click", async () => {
    const mine = document.activeElement == button("load");
    root.dataset.state = "loading";
    try {
      goLive(await tlLive.engine("pocket", {button: button("load"), progress: root.querySelector("progress")}));
      if (mine && [button("load"), document.body].includes(document.activeElement)) root.querySelector("select").focus();  // the reader may have gone on
    } catch (error) {
      out("how").textContent = tlLive.sentence(error);
      root.dataset.state = "refused";
    }
  });
  switches.forEach(one => one.addEventListener("click", () => { if (one.textContent != wanted.adjective) say({adjective: one.textContent}); }));
  cases.forEach(one => one.links.forEach(link => { link.strong = link.pronoun; }));
  view.show(cases[0]);
  root.dataset.state = "ready";
}

// Any sentence ------------------------------------------------------------------------------------------------------------------

// one part of a text: what is read, and what has been said of it so far
function reading({text, pieces}, layer) {
  const english = tlLive.words(text, "en"), places = tlLive.spans(text, pieces);
  const texts = [], rows = [], end = t => t < 0 ? 0 : texts[t].replace(/\ufffd+$/, "").length;
  const names = words => words.map(word => word.text);
  return {
    steps: () => texts.length,
    take({kind, text, cross, rows: hypotheses}) {  // an event of the engine
      if (kind == "token") { texts.push(text); rows.push(tlLive.mean(cross[layer])); }
      if (kind == "beam") texts.push((hypotheses.find(row => row.state == "open") || hypotheses[0]).text);
    },
    after(step) {  // what is shown after so many steps
      const said = step ? tlLive.words(texts[step - 1], "fr") : [], ends = texts.slice(0, step).map((_, t) => [end(t - 1), end(t)]);
      const links = rows.length ? tlLive.links(tlLive.looks(said, ends, english, places, rows)) : [];
      return {english: names(english), french: names(said), links};
    },
    whole({text, pieces, attention}) {
      const said = tlLive.words(text, "fr"), heads = attention.cross[layer];
      const all = Array.from({length: heads[0].rows}, (_, t) => tlLive.mean(heads.map(map => map.weights.subarray(t * map.columns, (t + 1) * map.columns))));
      const links = tlLive.links(tlLive.looks(said, tlLive.spans(text, pieces), english, places, all));
      return {english: names(english), french: names(said), links, said: text};
    },
  };
}

// the chrF to expect where the mean log-probability of a token is x: between two known ones a straight line
function expected([known, chrf], x) {
  const i = known.findIndex(one => one >= x);
  if (i <= 0) return i ? chrf[chrf.length - 1] : chrf[0];
  return chrf[i - 1] + (chrf[i] - chrf[i - 1]) * (x - known[i - 1]) / (known[i] - known[i - 1]);
}

function anySentence(root) {
  const {name, cases, worth, layer, doubt} = JSON.parse(root.dataset.ask), {out, button} = within(root), view = tlLive.picture(root.querySelector(".tl-lines"));
  const form = root.querySelector("form"), field = form.querySelector("textarea"), examples = Array.from(root.querySelectorAll(".tl-ask-list button"));
  let engine = null, turn = 0, own = false, pages = [], page = 0;
  const tellNow = (said, note, state) => {
    if (state != "busy" && document.activeElement == button("stop")) field.focus();  // it hides itself
    button("stop").hidden = state != "busy";
    tell(root, said, note, state);
  };
  const pause = ms => new Promise(go => setTimeout(go, ms));

  function listed({english, french, links}) {
    const seen = french.map((_, row) => links.filter(link => link.row == row).map(link => `${english[link.word]} ${Math.round(100 * link.weight)}%`));
    out("list").textContent = french.map((word, row) => `${word} ← ${seen[row].join(", ") || `no weight of ${Math.round(100 * tlLive.FAINT)}% or more`}`).join(" · ");
  }

  // grays an answer that isn't to be trusted, and says so; what was cut at the longest length that may be said is one of them
  function trust(chrf, cut = false) {
    const gray = cut || chrf < doubt, least = chrf <= worth[1][0];
    root.toggleAttribute("data-doubt", gray);
    return ` On held-out sentences, translations by beam search with this confidence scored ${least ? "at most " : ""}${Math.round(chrf)} of 100 on average against a human translation (chrF2)${gray ? ": don't rely on it." : "."}${cut ? " The output didn't end and was truncated." : ""}`;
  }

  function turnTo(number) {
    page = number;
    view.show(pages[page]);
    listed(pages[page]);
    out("page").textContent = `part ${page + 1} of ${pages.length}`;
  }

  function clear() {
    pages = [];
    for (const name of ["all", "pages"]) out(name).hidden = true;
    out("all").textContent = out("list").textContent = "";
    root.removeAttribute("data-doubt");
  }

  function problem(length) {
    if (!length) return "There is nothing to translate yet: type an English sentence.";
    if (length > tlLive.LONGEST) return `The text has ${length.toLocaleString("en")} characters, ${tlLive.LONGEST.toLocaleString("en")} are the most: translate it page by page.`;
    return engine ? "" : "The model isn't loaded yet: the button below the field loads it.";
  }

  // shows a part token by token while it is said; says when it is all shown
  async function follow(one, mine, alone, done) {
    for (let shown = -1, ended = false; mine == turn && !document.hidden && !(ended && shown == one.steps());) {  // nobody watches a hidden tab, and its clock crawls
      ended = done();
      const next = alone && !tlLive.calm ? Math.min(shown + 1, one.steps()) : one.steps();
      if (next != shown) { shown = next; view.show(one.after(shown), true); }
      await pause(alone ? PACE : 100);
    }
  }

  async function run() {
    stop();
    const text = tlLive.visible(field.value), mine = ++turn, beam = +form.elements["tl-way"].value, wrong = problem(Array.from(text.trim()).length);
    if (wrong) { tellNow("", wrong, "refused"); return; }
    own = true;
    examples.forEach(one => one.setAttribute("aria-pressed", String(one.textContent == text)));
    clear();
    tellNow("", "Translating.", "busy");
    let tokens = 0, time = 0, logP = 0, cut = false;
    try {
      const strange = (await engine.tokens(text)).note;  // no English, so what it says would be noise
      const plain = text.search(EMOJI) < 0 ? text : text.replace(EMOJI, " ").replace(/ +(?=[.,!?](?!\d))/g, "");
      const {parts} = await engine.tokens(strange ? "" : plain);
      if (mine != turn) return;
      if (strange) {
        view.show({english: tlLive.words(text, "en").slice(0, 40).map(word => word.text), french: [], links: []});
        tellNow("", `${strange} It wasn't translated.`, "refused");
        return;
      }
      for (const [number, part] of parts.entries()) {
        if (mine != turn) return;
        const one = reading(part, layer), start = performance.now();
        let answer = null, failed = null;
        const asked = engine.answer(part.ids, {beam, attention: true}, event => one.take(event)).then(
          found => { time += performance.now() - start; answer = found; }, error => { failed = error; });
        if (parts.length > 1) out("page").textContent = `part ${number + 1} of ${parts.length}`;
        await Promise.all([asked, follow(one, mine, parts.length == 1, () => answer || failed)]);
        if (mine != turn) return;
        if (failed) throw failed;
        pages.push(one.whole(answer));
        const length = answer.ids.length + answer.ended;  // EOS counts
        cut ||= !answer.ended;
        tokens += length;
        logP += beam == 1 ? answer.score : answer.score * ((5 + length) / 6) ** 0.6;  // without the length penalty
        view.show(pages[number]);
        if (parts.length > 1) {
          out("all").textContent += `${number ? " " : ""}${answer.text}`;
          out("all").hidden = out("pages").hidden = false;
        }
      }
      turnTo(0);
      const counted = `${tokens} tokens in ${(time / 1000).toFixed(time < 10000 ? 2 : 0)} seconds on this device, ${beam == 1 ? "greedy" : `beam size ${beam}`}.`;
      tellNow(pages.map(one => one.said).join(" "), `${text.search(EMOJI) < 0 ? "" : "Emoji are left out, for the model has never had one as input. "}${counted}${trust(expected(worth, logP / tokens), cut)}`, "done");
    } catch (error) {
      if (mine != turn) return;
      if (pages.length) turnTo(pages.length - 1);
      tellNow("", tlLive.sentence(error), "refused");
    }
  }

  function stop() {
    if (button("stop").hidden) return;
    engine.stop();
    turn++;
    if (pages.length) turnTo(pages.length - 1);
    tellNow("", "Stopped.", "ready");
  }

  function example(number) {
    examples.forEach((one, i) => one.setAttribute("aria-pressed", String(i == number)));
    if (engine) { field.value = cases[number].text; run(); return; }
    turn++;  // the first one needn't play by itself any more
    clear();
    root.dataset.state = "busy";
    view.play(cases[number], 0, () => tellNow(cases[number].said, `Recorded when this page was built, with beam size 4.${trust(cases[number].chrf)}`, "done"));
    listed(cases[number]);
  }

  function ready() {
    button("load").hidden = !!engine;
    button("go").hidden = out("way").hidden = !engine;
    out("cases").textContent = engine ? "Or one of these:" : "Recorded sentences:";
  }

  button("load").addEventListener("click", async () => {
    const focused = document.activeElement == button("load");
    root.dataset.state = "loading";
    try {
      engine = await tlLive.engine(name, {button: button("load"), progress: form.querySelector("progress")});
    } catch (error) {
      tellNow("", tlLive.sentence(error), "refused");
      return;
    }
    ready();
    const asked = field.value.trim();
    const typing = document.activeElement == field;
    if (focused && [button("load"), document.body].includes(document.activeElement)) (asked ? button("go") : field).focus();  // a phone's keyboard would cover the answer
    if (asked && !typing) run();
    else tellNow("", asked ? "The model is loaded: press Enter to translate." : "The model is loaded: type an English sentence.", "ready");
  });
  form.addEventListener("submit", event => { event.preventDefault(); run(); });
  form.addEventListener("change", event => {
    if (event.target.name == "tl-way" && own) run();
  });
  field.addEventListener("keydown", event => {
    if (event.key == "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); run(); }
    if (event.key == "Escape") stop();
  });
  field.addEventListener("beforeinput", event => {  // a field with megabytes in it would hold up the page by itself
    const length = (event.data || "").length;
    if (length > tlLive.LONGEST) { event.preventDefault(); tell(root, "", problem(length), button("stop").hidden ? "refused" : "busy"); }
  });
  button("stop").addEventListener("click", stop);
  button("back").addEventListener("click", () => turnTo((page || pages.length) - 1));
  button("on").addEventListener("click", () => turnTo((page + 1) % pages.length));
  examples.forEach((one, i) => one.addEventListener("click", () => example(i)));
  view.show(cases[0]);
  listed(cases[0]);
  root.dataset.state = "ready";
  // the first one plays by itself, once, when it comes into sight
  new IntersectionObserver((seen, watch) => {
    if (!seen.some(one => one.isIntersecting)) return;
    watch.disconnect();
    if (!own && !tlLive.calm && turn == 0) view.play(cases[0], 0);
  }, {threshold: 0.6}).observe(root.querySelector(".tl-lines"));
}

document.querySelectorAll(".tl-first").forEach(runningSentence);
document.querySelectorAll(".tl-ask").forEach(anySentence);
})();
