/* The book's search: the theme's button, dialog and Ctrl/Cmd K, with results while one types, from
   a folder as from a server. MiniSearch (minisearch.js) ranks by BM25; the pages' words come from
   search-pages.js (made by tools/build.py), what readers call things from search-words.js. All
   three are fetched when the search is opened.

     tlSearch.ready()            a promise: results from titles; tlSearch.ready.complete(): from all
     tlSearch.find(query, most)  -> [{page, section, name, address, ...}], best first: rare
                                 words decide, and a page's further sections count less

   1 words   2 index   3 query   4 context   5 page */
window.tlSearch = (function () {
  "use strict";
  const address = new URL(document.currentScript.src),
    folder = new URL(".", address).href;
  const update = document.querySelector("meta[name='docbuild:last-update']");
  const day = update ? update.content.replace(/\W+/g, "-") : "";
  const built = `${address.search.slice(1)}-${day}`; // no older file from the cache

  // 1 Words ---------------------------------------------------------------------------------------

  const STOP = new Set(
    `a about an and any are as at be because been but by can could did do does doesn don didn
     during isn for from get gets give given go goes had has have how i if in into is it its just
     like make makes me much my of on or our should so some such than that the their them then
     there these they this to too up use used using very was way we were versus vs what when where
     which who why while will with without won would you your`.split(/\s+/),
  );
  const NOT = /^(?:(?:are|ca|could|did|do|does|had|has|have|is|should|was|were|wo|would)nt|never)$/;
  const ENDINGS = [
    // one form for the forms of a word; encoder and encoding stay apart
    [/([gc]pu)s$/, "$1"],
    [/rices$/, "rix"],
    [/dices$/, "dex"],
    [/ies$/, "y"],
    [/(ss|x|ch|sh|zz)es$/, "$1"],
    [/([^suia])s$/, "$1"],
    [/(?:is|iz)ation$/, "iz"],
    [/(plan|clam)ation$/, (_, start) => start.replace("a", "ai")],
    [/(ment|pret|sent|form|put|apt)ation$/, "$1"],
    [/(..)is(e|ed|ing|er|able)$/, "$1iz$2"],
    [/iz(?:e|ed|ing|er|able)$/, "iz"],
    [/yz(e|ed|ing|er)$/, "ys$1"],
    [/(..[^aeo])our(ed|ing|al|able|hood|)$/, "$1or$2"],
    [/([bt])re$/, "$1er"],
    [/licence/, "license"],
    [/^grey/, "gray"],
    [/(at|ut)(?:ion|or)$/, "$1"],
    [/ional$/, "ion"],
    [/oidal$/, "oid"],
    [/(significa|invaria|equivaria|releva)nc[ey]$/, "$1nt"],
    [/ergence$/, "erg"],
    [/(al|ar|ent|ant|om|iv)ly$/, "$1"],
    [/(..)([bdgmnprt])\2(?:ed|ing)$/, "$1$2"],
    [/ell(?:ed|ing)$/, "el"],
    [/([aeiouy][a-z]*)ing$/, "$1"],
    [/([aeiouy][a-z]*[^e])ed$/, "$1"],
    [/(...)e$/, "$1"],
  ];
  const stems = new Map();

  function stemOf(word) {
    let stem = stems.get(word);
    if (stem === undefined) {
      stem = NOT.test(word) ? "not" : word;
      if (word.length > 3 && /^[a-z]+$/.test(word))
        for (const [ending, rest] of ENDINGS) stem = stem.replace(ending, rest);
      stems.set(word, stem);
    }
    return stem;
  }

  const SKIPPED = new Set([...STOP].flatMap(word => [word, stemOf(word)]));
  const EMPTY = new Set([...SKIPPED, "not"]); // it says nothing alone, but "not decreasing" does

  const WORD = /√|[\p{L}\p{N}_]+(?:[-‐'’&][\p{L}\p{N}_]+|\.\d+)*/gu;
  const analyses = new Map();

  /* The parts of a word, and the word without its hyphens, underscores and capitals:
   multi-head, multi_head and MultiHead are multi, head and multihead. */
  function analysis(word) {
    let parsed = analyses.get(word);
    if (!parsed) {
      const plain = word
        .replace("√", "sqrt")
        .normalize("NFKD")
        .replace(/[\u0300-\u036f]/g, "")
        .replace(/['’](?:s$)?/g, "");
      const split = /^[A-Z]{2,}s$/.test(plain)
        ? plain.slice(0, -1)
        : plain.replace(/([a-z\d])([A-Z])/g, "$1 $2").replace(/([A-Z])([A-Z][a-z])/g, "$1 $2");
      const parts = split
        .toLowerCase()
        .split(/[^\p{L}\p{N}]+/u)
        .filter(Boolean);
      parsed = {
        parts: parts.map(stemOf),
        surfaces: parts,
        whole: parts.length > 1 && parts.length < 5 ? stemOf(parts.join("")) : "",
      };
      analyses.set(word, parsed);
    }
    return parsed;
  }

  const wordsOf = text => text.match(WORD) || [];
  const partsOf = text => wordsOf(text).flatMap(word => analysis(word).parts);

  // Things with several names: the parts of each name -> "=12", which stands for the thing.
  const concepts = new Map(),
    longest = new Map();
  let nConcepts = 0;

  function addConcept(names) {
    const keys = names.flatMap(name => {
      const parts = partsOf(name),
        full = parts.filter(part => !SKIPPED.has(part)); // "ignores the source": "ignores source"
      return [
        parts.join(" "),
        ...(full.length > 1 ? [full.join(" ")] : []),
        ...(parts.length > 1 && parts.length < 4 ? [stemOf(parts.join(""))] : []),
      ];
    });
    const known = keys.map(key => concepts.get(key)).find(Boolean),
      id = known || `=${++nConcepts}`;
    for (const key of keys) {
      if (!key || concepts.has(key)) continue;
      concepts.set(key, id);
      const [first, ...rest] = key.split(" ");
      longest.set(first, Math.max(longest.get(first) || 0, rest.length + 1));
    }
  }

  /* Calls found(id, from, to) for each thing that is named, the longest name at each place; words
   that say nothing may lie between: "loss is not decreasing" is "loss not decreasing". */
  function findConcepts(parts, found) {
    for (let from = 0; from < parts.length; from++) {
      const most = longest.get(parts[from]);
      for (let n = most ? Math.min(most + 2, parts.length - from) : 0; n; n--) {
        const own = parts.slice(from, from + n),
          full = n > 2 && !SKIPPED.has(own[n - 1]) && own.filter(part => !SKIPPED.has(part));
        const id = concepts.get(own.join(" ")) || (full && concepts.get(full.join(" ")));
        if (id) {
          found(id, from, from + n);
          from += n - 1;
          break;
        }
      }
    }
  }

  const counts = new Map(), // each word as it is written -> how often
    known = new Set(); // stems

  function termsOf(text) {
    const parts = [],
      terms = [];
    for (const word of wordsOf(text)) {
      const parsed = analysis(word);
      parts.push(...parsed.parts);
      for (const part of parsed.parts) known.add(part);
      for (const surface of parsed.surfaces) counts.set(surface, (counts.get(surface) || 0) + 1);
      if (parsed.whole) terms.push(parsed.whole);
    }
    findConcepts(parts, id => terms.push(id));
    for (const part of parts) if (part.length > 1 && !EMPTY.has(part)) terms.push(part);
    return terms;
  }

  // 2 Index ---------------------------------------------------------------------------------------

  const MINOR = /^(summary|exercises?\b|three questions|further reading|setup)/i;
  const BOOST = {title: 4, boxes: 2, page: 1.5, names: 0.7};
  const ABOUT = 0.9; // a phrase of search-words.js that is the query, beside the best page's score
  const OWN = 1.4; // the same for a section, beside the best section's
  const HEADING = 0.8; // a heading, or the title of a box, beside such a phrase
  const sections = [],
    pages = new Map();
  let titles = null,
    texts = null,
    weights = [],
    isComplete = false;

  const lines = text =>
    text
      .trim()
      .split("\n")
      .map(line => line.trim())
      .filter(Boolean);
  const pair = line => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1)];
  const nameOf = path => path.replace(/^book\/|\.html$/g, "");
  const decoded = text =>
    text.replace(
      /&(?:lt|gt|amp|quot|#x27|#39);/g,
      mark => ({"&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": '"'})[mark] || "'",
    );
  const weightOf = name =>
    (weights.find(
      ([start]) => name == start || name.startsWith(start + "_") || name.startsWith(start + "/"),
    ) || [0, 1])[1];

  // Formulas without their backslashes; short lines, such as cells of a table, in one.
  function joined(words) {
    const together = [];
    let isShort = false;
    for (const line of words) {
      const plain = line.includes("\\")
        ? line
            .replace(/\\[()]/g, "")
            .replace(/\\sqrt/g, "√")
            .replace(/\\cdot/g, "·")
            .replace(/\\[a-zA-Z]+|[{}\\]/g, "")
        : line;
      if (isShort && line.length < 60 && together[together.length - 1].length < 300)
        together[together.length - 1] += ` · ${plain}`;
      else together.push(plain);
      isShort = line.length < 60;
    }
    return together;
  }

  function readPages(text) {
    for (const each of text.split("\0").slice(1)) {
      const [head, ...parts] = each.split("\x01"),
        path = head.slice(0, head.indexOf("\n")),
        name = nameOf(path);
      if (!parts.length) continue;
      const page = {name, path, weight: weightOf(name), title: "", sections: []};
      pages.set(name, page);
      for (const part of parts) {
        const [place, title = "", ...rest] = part.split("\n").filter(Boolean);
        page.title = page.title || decoded(title);
        const code = rest
          .filter(line => line[0] == "\x02")
          .map(line => line.slice(1))
          .join(" ");
        const boxes = rest.filter(line => line[0] == "\x03").map(line => decoded(line.slice(1)));
        const words = joined(rest.filter(line => line[0] > "\x03").map(decoded));
        const section = {
          id: sections.length,
          page,
          place,
          title: decoded(title),
          lines: words,
          boxes,
          names: [...new Set(code.split(" "))].join(" "),
        };
        section.weight = MINOR.test(section.title) ? 0.55 : 1;
        page.sections.push(section);
        sections.push(section);
      }
    }
  }

  // What the glossary knows: names of one thing, and the page that builds it.
  function readGlossary() {
    const glossary = pages.get("glossary");
    for (const {title, lines: words} of glossary ? glossary.sections.slice(1) : []) {
      const text = words.join(" "),
        also = [...text.matchAll(/also called ([^.;:()]+)/gi)].flatMap(found =>
          found[1].split(/, (?:or )?| or | and /),
        );
      const heads = title.split(", "),
        short = heads.slice(1).filter(head => /^[A-Z\d-]{2,6}s?$/.test(head));
      addConcept([
        heads[0].replace(/ \(.*\)/, ""),
        ...short,
        ...also.map(name => name.replace(/^(an?|the) /, "")),
      ]);
      for (const [, number] of text.matchAll(/chapter (\w+)/gi))
        for (const page of pages.values())
          if (page.name.startsWith(`${number.padStart(2, "0")}_`))
            [...heads, ...also].forEach(name => addPhrase(name, page));
    }
  }

  /* What pages, and sections of them, are about: phrases, each as what it names. */
  const phrasesWith = new Map();

  function addPhrase(text, page, section, weight = 1) {
    const phrase = {page, section, weight, terms: keyTerms(partsOf(text))};
    for (const word of wordsOf(text).flatMap(each => analysis(each).surfaces))
      counts.set(word, counts.get(word) || 1);
    for (const term of phrase.terms)
      phrasesWith.set(term, [...(phrasesWith.get(term) || []), phrase]);
  }

  function engine(fields) {
    const same = {tokenize: term => [term], processTerm: term => term};
    return new window.MiniSearch({
      fields,
      tokenize: termsOf,
      processTerm: term => term,
      searchOptions: {boost: BOOST, ...same},
    });
  }

  const pause = () => new Promise(then => setTimeout(then));

  /* Titles and names in code first, so that there are results at once; then the text, in pieces,
     so that a key that is pressed meanwhile isn't late. */
  async function index(complete) {
    const {same, about, weights: weighed} = window.tlSearchWords;
    weights = lines(weighed)
      .map(pair)
      .map(([name, weight]) => [name, +weight]);
    for (const line of lines(same)) addConcept(line.split(", "));
    readPages(window.tlSearchPages);
    readGlossary();
    for (const [address, words] of lines(about).map(pair)) {
      const [name, place] = address.split("#"),
        page = pages.get(name);
      const section = place && page && page.sections.find(one => one.place == place);
      if (page) for (const phrase of words.split(", ")) addPhrase(phrase, page, section);
    }
    for (const section of sections)
      if (section.weight == 1 && section.page.weight > 0.35 && section.page.name != "glossary")
        for (const text of [section.title, ...section.boxes])
          addPhrase(text, section.page, section, HEADING);
    for (const key of concepts.keys()) for (const part of key.split(" ")) counts.set(part, 1);
    await pause();
    [titles, texts] = [engine(Object.keys(BOOST)), engine(["text"])];
    titles.addAll(
      sections.map(({id, page, title, boxes, names}) => ({
        id,
        title,
        boxes: boxes.join("\n"),
        page: page.title == title ? "" : page.title,
        names,
      })),
    );
    (async () => {
      for (let from = 0; from < sections.length; from += 20) {
        await pause();
        texts.addAll(
          sections
            .slice(from, from + 20)
            .map(({id, lines: words}) => ({id, text: words.join("\n")})),
        );
      }
      isComplete = true;
      complete();
    })();
  }

  function fetched(name) {
    return new Promise((found, failed) => {
      const tag = document.createElement("script");
      tag.src = `${folder}${name}?${built}`;
      tag.onload = found;
      tag.onerror = () => failed(new Error(`${name} is missing`));
      document.head.appendChild(tag);
    });
  }

  let opening = null,
    completed = null;

  // Fetched, with results from the titles; `ready.complete()`: from all of the text.
  function ready() {
    if (!opening) {
      let complete;
      completed = new Promise(then => {
        complete = then;
      });
      opening = Promise.all(
        ["minisearch.js", "search-words.js", "search-pages.js"].map(fetched),
      ).then(() => index(complete));
      opening.catch(() => {
        opening = null;
      });
    }
    return opening;
  }
  ready.complete = () => ready().then(() => completed);

  // 3 Query ---------------------------------------------------------------------------------------

  const isKnown = word =>
    counts.has(word) || known.has(stemOf(word)) || concepts.has(stemOf(word));

  // How many letters to change, leave out, add or swap with the next; more than `most` is Infinity.
  function distance(a, b, most) {
    if (Math.abs(a.length - b.length) > most) return Infinity;
    let [before, last] = [[], Array.from({length: b.length + 1}, (_, j) => j)];
    for (let i = 1; i <= a.length; i++) {
      const row = [i];
      for (let j = 1; j <= b.length; j++) {
        row[j] = Math.min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
        if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
          row[j] = Math.min(row[j], before[j - 2] + 1);
      }
      if (Math.min(...row) > most) return Infinity;
      [before, last] = [last, row];
    }
    return last[b.length];
  }

  const corrections = new Map();

  // The words that an unknown word is meant to be: two that were written as one, or the nearest.
  function corrected(word) {
    if (corrections.has(word)) return corrections.get(word);
    let best = [word],
      least = Infinity;
    for (let cut = 3; cut <= word.length - 3; cut++) {
      const halves = [word.slice(0, cut), word.slice(cut)];
      const count = Math.min(...halves.map(half => counts.get(half) || 0));
      if (count > 2 && 1 / count < least) [best, least] = [halves, 1 / count];
    }
    const most = word.length < 4 ? 0 : word.length < 6 ? 1 : word.length < 9 ? 2 : 3;
    if (best.length == 1 && most)
      for (const [known, count] of counts) {
        if (known.length < 3 || /\d/.test(known) != /\d/.test(word)) continue;
        const off = distance(word, known, most) + (known[0] != word[0]) - Math.log10(1 + count) / 4;
        if (off < least && off < most + 0.5) [best, least] = [[known], off];
      }
    corrections.set(word, best);
    return best;
  }

  // The words that begin as what is being typed; those first that make the name of a thing.
  function completions(start, before) {
    const found = [...counts].filter(
      ([word]) => word.startsWith(start) && word.length > start.length,
    );
    const completesName = word =>
      [3, 2, 1].some(
        n => before.length >= n && concepts.has([...before.slice(-n), stemOf(word)].join(" ")),
      );
    return found
      .map(([word, count]) => [word, count + 1e6 * completesName(word)])
      .sort((a, b) => b[1] - a[1])
      .slice(0, 3)
      .map(([word]) => word);
  }

  /* What is searched: terms with weights. `typing`: the last word may be a beginning. */
  function parsed(query) {
    const typing = !/\s$/.test(query),
      surfaces = wordsOf(query).flatMap(word => analysis(word).surfaces);
    const words = [],
      terms = new Map(),
      meanings = [];
    const add = (term, weight) => terms.set(term, Math.max(weight, terms.get(term) || 0));
    surfaces.forEach((word, i) => {
      let meant = [word];
      const isLast = typing && i == surfaces.length - 1,
        joined = word + (surfaces[i + 1] || "");
      if (surfaces[i + 1] && joined.length > 4 && counts.has(joined)) add(stemOf(joined), 0.8);
      const ends = isLast && word.length > 1 && !EMPTY.has(word) ? completions(word, words) : [];
      if (isKnown(word) || EMPTY.has(word) || /\d/.test(word)) {
        words.push(stemOf(word));
        for (const end of ends) add(stemOf(end), 0.25);
      } else if (ends.length) {
        words.push(stemOf(ends[0]));
        for (const end of ends.slice(1)) add(stemOf(end), 0.5);
      } else if (!isComplete) words.push(stemOf(word));
      else {
        meant = corrected(word);
        words.push(...meant.map(stemOf));
      }
      meanings.push(...meant);
    });
    for (const word of wordsOf(query)) {
      const {whole} = analysis(word);
      if (whole && (titles.search(whole).length || texts.search(whole).length)) add(whole, 1);
    }
    const keys = keyTerms(words),
      content = words.filter(word => !EMPTY.has(word));
    for (const word of content.length ? content : words) add(word, keys.has(word) ? 1 : 0.5);
    for (const key of keys) if (key[0] == "=") add(key, 1.6);
    const isCorrected = meanings.join() != surfaces.join();
    return {terms, keys, correction: isCorrected ? meanings.join(" ") : ""};
  }

  // What a text names: concepts, and the words that are in none of their names.
  function keyTerms(parts) {
    const named = new Set(),
      keys = new Set();
    findConcepts(parts, (id, from, to) => {
      keys.add(id);
      for (let i = from; i < to; i++) named.add(i);
    });
    parts.forEach((part, i) => {
      if (!named.has(i) && !EMPTY.has(part)) keys.add(part);
    });
    return keys;
  }

  const sum = numbers => numbers.reduce((total, number) => total + number, 0);

  /* How far each page, and each section that has phrases, is about what is asked: the phrases that
   share its rarer terms. 1 is one that is the query. */
  function aboutness(keys, rarity) {
    const byPage = new Map(),
      fits = new Map(),
      asked = sum([...keys].map(rarity));
    for (const phrase of new Set([...keys].flatMap(key => phrasesWith.get(key) || []))) {
      const shared = sum([...phrase.terms].filter(term => keys.has(term)).map(rarity));
      const {page, section, weight} = phrase;
      const fit = (weight * (shared / sum([...phrase.terms].map(rarity))) ** 2 * shared) / asked;
      if (section) fits.set(section.id, Math.max(fit, fits.get(section.id) || 0));
      const [first, second] = byPage.get(page) || [0, 0];
      byPage.set(page, fit > first ? [fit, first] : [first, Math.max(second, fit)]);
    }
    const about = new Map([...byPage].map(([page, [first, second]]) => [page, first + second / 3]));
    return {about, fits};
  }

  function find(query, most = 20) {
    const {terms, correction, keys} = parsed(query),
      bySection = new Map(),
      byPage = new Map(),
      inText = new Map(),
      has = new Map();
    const foundInText = term => inText.get(term) || inText.set(term, texts.search(term)).get(term);
    const rarity = term => 0.2 + Math.log((1 + sections.length) / (1 + foundInText(term).length));
    const rarest = Math.max(...[...terms.keys()].map(rarity), 0.1);
    let asked = 0; // the weight of all terms that are anywhere, and of those in each section
    for (const [term, weight] of terms) {
      const found = [...titles.search(term), ...foundInText(term)],
        importance = weight * rarity(term);
      const own = (importance / rarest) * Math.min(1, 0.25 + rarity(term) / 5);
      if (found.length) asked += importance;
      for (const id of new Set(found.map(({id: section}) => section)))
        has.set(id, (has.get(id) || 0) + importance);
      for (const {id, score} of found) {
        const {page, weight: part} = sections[id],
          pooled = byPage.get(page) || Object.create(null);
        byPage.set(page, pooled);
        pooled[term] = pooled[term] || new Map();
        pooled[term].set(id, (pooled[term].get(id) || 0) + own * part * score);
        bySection.set(id, (bySection.get(id) || 0) + own * part * score);
      }
    }
    for (const [id, score] of bySection) bySection.set(id, score * (0.5 + has.get(id) / asked / 2));
    const {about, fits} = aboutness(keys, rarity),
      strongest = Math.max(1, ...bySection.values()),
      scores = new Map();
    for (const [id, fit] of fits)
      bySection.set(id, (bySection.get(id) || 0) + OWN * strongest * fit);
    for (const [page, pooled] of byPage) {
      const own = Object.keys(pooled),
        best = Math.max(...page.sections.map(({id}) => bySection.get(id) || 0));
      const covered = sum(own.map(term => terms.get(term) * rarity(term))) / asked;
      const each = own.map(
        term => Math.max(...pooled[term].values()) * (1 + 0.1 * Math.log2(pooled[term].size)),
      );
      scores.set(page, (0.5 * best + sum(each)) * (0.3 + 0.7 * covered));
    }
    const scale = Math.max(1, ...scores.values()),
      results = [];
    for (const page of new Set([...scores.keys(), ...about.keys()])) {
      const found = page.sections
        .filter(({id}) => bySection.has(id))
        .sort((a, b) => bySection.get(b.id) - bySection.get(a.id));
      if (!found.length) found.push(page.sections[0]);
      const own = page.weight * ((scores.get(page) || 0) + ABOUT * scale * (about.get(page) || 0)),
        top = bySection.get(found[0].id);
      found.slice(0, 4).forEach((section, rank) =>
        results.push({
          page: page.title,
          section: section == page.sections[0] ? "" : section.title,
          name: page.name,
          source: section,
          rank,
          address: `${page.path}#${section.place}`,
          score: own * ((rank && (0.8 ** rank * bySection.get(section.id)) / top) || 1),
        }),
      );
    }
    results.sort((a, b) => b.score - a.score);
    return Object.assign(results.slice(0, most), {terms, correction});
  }

  // 4 Context -------------------------------------------------------------------------------------

  // Where a text has the terms: [{from, to, term}].
  function places(text, terms) {
    const found = [],
      parts = [],
      spans = [];
    for (const match of text.matchAll(WORD)) {
      const span = {from: match.index, to: match.index + match[0].length},
        {parts: own, whole} = analysis(match[0]);
      const term = [whole, ...own].find(part => terms.has(part));
      if (term) found.push({...span, term});
      for (const part of own) {
        parts.push(part);
        spans.push(span);
      }
    }
    findConcepts(parts, (id, from, to) => {
      if (terms.has(id)) found.push({from: spans[from].from, to: spans[to - 1].to, term: id});
    });
    return found.sort((a, b) => a.from - b.from || b.to - a.to);
  }

  const LONGEST = 170; // letters

  // The piece of the section's text with most of the terms, and where they are in it.
  function contextOf(section, terms) {
    let best = {weight: 0, text: section.lines[0] || "", from: 0};
    for (const text of section.lines) {
      const found = places(text, terms);
      for (const {from} of found) {
        const near = found.filter(place => place.from >= from && place.to <= from + LONGEST - 50);
        const weight =
          [...new Set(near.map(place => place.term))].reduce(
            (sum, term) => sum + terms.get(term),
            0,
          ) +
          (text.length > 60) / 4;
        if (weight > best.weight) best = {weight, text, from};
      }
    }
    const {text} = best;
    let from =
      text.length <= LONGEST ? 0 : Math.max(0, Math.min(best.from - 45, text.length - LONGEST));
    if (from) from = text.indexOf(" ", from) + 1 || from;
    let to = Math.min(text.length, from + LONGEST);
    if (to < text.length) to = Math.max(text.lastIndexOf(" ", to), from + LONGEST / 2);
    return (from ? "… " : "") + text.slice(from, to) + (to < text.length ? " …" : "");
  }

  function marked(tag, className, text, terms) {
    const element = document.createElement(tag);
    element.className = className;
    let end = 0;
    for (const {from, to} of places(text, terms)) {
      if (from < end) continue;
      const mark = document.createElement("mark");
      mark.textContent = text.slice(from, to);
      element.append(text.slice(end, from), mark);
      end = to;
    }
    element.append(text.slice(end));
    return element;
  }

  // 5 Page ----------------------------------------------------------------------------------------

  const root = document.documentElement.dataset.content_root || "../";

  function link(result, terms, id) {
    const option = document.createElement("a"),
      {page, section, source} = result;
    Object.assign(option, {id, href: root + result.address, tabIndex: -1});
    option.setAttribute("role", "option");
    option.setAttribute("aria-selected", "false");
    const context = contextOf(source, terms);
    if (section) option.append(marked("span", "tl-found-page", page, terms));
    option.append(marked("b", "", section || page, terms));
    if (context) option.append(marked("span", "tl-found-context", context, terms));
    return option;
  }

  // One field with its results. Where the theme opens it as a dialog, `wrapper` is what it shows.
  function attach(form, number, most, wrapper) {
    const input = form.querySelector("input"),
      panel = document.createElement("div");
    const status = document.createElement("p"),
      list = document.createElement("div");
    let active = -1,
      shown = null;
    panel.className = "tl-found";
    status.className = "tl-found-status";
    list.id = `tl-found-${number}`;
    status.setAttribute("role", "status");
    list.setAttribute("role", "listbox");
    list.setAttribute("aria-label", "Results");
    list.hidden = true;
    panel.append(status, list);
    form.after(panel);
    for (const [name, value] of Object.entries({
      role: "combobox",
      "aria-autocomplete": "list",
      "aria-controls": list.id,
      "aria-expanded": "false",
    }))
      input.setAttribute(name, value);

    function activate(next) {
      if (list.children[active]) list.children[active].setAttribute("aria-selected", "false");
      active = next;
      const option = list.children[active];
      if (!option) return input.removeAttribute("aria-activedescendant");
      option.setAttribute("aria-selected", "true");
      option.scrollIntoView({block: "nearest"});
      input.setAttribute("aria-activedescendant", option.id);
    }

    function show() {
      const query = input.value;
      if (query === shown) return;
      shown = query;
      const results = query.trim()
        ? find(query, most)
        : Object.assign([], {terms: new Map(), correction: ""});
      list.replaceChildren(
        ...results.map((result, i) => link(result, results.terms, `${list.id}-${i}`)),
      );
      list.hidden = !results.length;
      input.setAttribute("aria-expanded", String(!list.hidden));
      const number = results.length == 1 ? "1 result" : `${results.length} results`;
      status.textContent = !query.trim()
        ? ""
        : !results.length
          ? "Nothing found. Try another word for it, or fewer words."
          : results.correction
            ? `${number} for “${results.correction}”`
            : number;
      list.scrollTop = 0;
      activate(results.length ? 0 : -1);
    }

    function search() {
      if (titles) show();
      if (isComplete) panel.dataset.state = "done";
      if (panel.dataset.state) return;
      panel.dataset.state = "loading";
      if (input.value.trim() && !titles) status.textContent = "Loading the search …";
      ready()
        .then(show)
        .then(ready.complete)
        .then(
          () => {
            panel.dataset.state = "done";
            if (active < 1) shown = null; // unless the reader is on the way through the list
            show();
          },
          () => {
            panel.dataset.state = "";
            status.textContent = "The search could not be loaded. Try again.";
          },
        );
    }

    input.addEventListener("input", search);
    input.addEventListener("focus", search);
    form.addEventListener("submit", event => {
      event.preventDefault();
      if (list.children[active]) list.children[active].click();
    });
    input.addEventListener("keydown", event => {
      const by = {ArrowDown: 1, ArrowUp: -1}[event.key];
      if (event.key == "Escape") event.preventDefault(); // the theme closes; the words stay
      if (!by || !list.children.length) return;
      event.preventDefault();
      activate((active + by + list.children.length) % list.children.length);
    });
    if (!wrapper) return input;

    const dialog = form.parentElement,
      close = document.createElement("button");
    let outside = null;
    dialog.setAttribute("role", "dialog");
    dialog.setAttribute("aria-modal", "true");
    dialog.setAttribute("aria-label", "Search");
    Object.assign(close, {type: "button", className: "tl-found-close", textContent: "×"});
    close.setAttribute("aria-label", "Close the search");
    close.addEventListener("click", () => wrapper.classList.remove("show"));
    list.addEventListener("click", event => {
      if (!event.ctrlKey && !event.metaKey) wrapper.classList.remove("show");
    });
    form.append(close);
    document.addEventListener("focusin", event => {
      if (!wrapper.contains(event.target)) outside = event.target;
    });
    dialog.addEventListener("keydown", event => {
      if (event.key == "Escape" && event.target != input) wrapper.classList.remove("show");
      if (event.key == "Tab") {
        // the field and the button, and nothing behind
        event.preventDefault();
        (event.target == input ? close : input).focus();
      }
    });
    new MutationObserver(() => {
      const inside = [document.body, close].includes(document.activeElement);
      if (!wrapper.classList.contains("show") && outside && inside)
        outside.focus({preventScroll: true});
    }).observe(wrapper, {attributes: true, attributeFilter: ["class"]});
    return input;
  }

  function start() {
    const wrapper = document.querySelector(".search-button__wrapper");
    if (!wrapper) return;
    const hidden = wrapper.querySelector("form.bd-search");
    document.querySelectorAll("form.bd-search").forEach((form, number) => {
      const input = attach(form, number, form == hidden ? 12 : 40, form == hidden ? wrapper : null);
      if (form == hidden) return;
      input.value = new URLSearchParams(window.location.search).get("q") || ""; // an old link
      input.focus();
      input.dispatchEvent(new Event("input"));
    });
    for (const button of document.querySelectorAll(".search-button__button"))
      button.addEventListener("pointerenter", () => {
        ready().catch(() => {});
      });
  }

  if (document.readyState == "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
  return {ready, find};
})();
