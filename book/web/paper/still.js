// Run inside a page of the built book: what moves is made still, what is folded is opened, and what leads nowhere on paper is taken out.
// tools/still.py calls these in order: ready(), unfolded(), then pictures are taken of the live views, then still(wish).

const LIVE = ".tl-explore, .tl-first, .tl-live";
const CONTROLS = "button, input, select, textarea, canvas";
const ANSWER = /^(hint|answer|solution)/i;

async function ready() {
  if (window.MathJax && MathJax.startup) await MathJax.startup.promise;
  await document.fonts.ready;
}

function unfolded() {
  const article = document.querySelector("article");
  article.querySelectorAll("details").forEach(fold => fold.open = true);
  document.querySelectorAll("header, .bd-header-article, .bd-sidebar, .bd-sidebar-primary").forEach(bar => bar.style.display = "none");
  // a control outside a known view makes the thing around it a live view
  const views = new Set(article.querySelectorAll(LIVE));
  article.querySelectorAll(CONTROLS).forEach(control => {
    if (!control.closest(LIVE) && !control.closest(".highlight")) views.add(control.closest("[role=group], form, figure, .output") || control);
  });
  const outer = [...views].filter(view => ![...views].some(other => other !== view && other.contains(view)));
  outer.forEach((view, i) => {
    view.dataset.picture = i;
    view.querySelectorAll(".tl-hand").forEach(part => part.remove());
    view.querySelectorAll("[data-do], .tl-do").forEach(button => button.style.visibility = "hidden");
  });
  return outer.length;
}

function still(wish) {  // {key, pages: {path: key}, mathml, shift, pictures: [address]}
  const article = document.querySelector("article"), sentence = sentenceOf(article);
  formulas(article, wish.mathml);
  if (wish.mathml) resolve(article);
  article.querySelectorAll("[data-picture]").forEach(view => pictureOf(view, wish.pictures[view.dataset.picture]));
  article.querySelectorAll("script, .headerlink, .tl-hero-go, .toctree-wrapper, .expanded, .tl-phone, .tl-margin, button, :not(svg) > style:not(svg *)").forEach(e => e.remove());
  article.querySelectorAll("li").forEach(line => { if (line.querySelector("a[download]") && line.closest("ul")?.previousElementSibling?.matches("h1 + p")) line.remove(); });
  const title = article.querySelector("h1");
  const named = title ? title.textContent.trim() : document.title;
  if (article.querySelector(".tl-part")) title.nextElementSibling.classList.add("tl-lead");
  title?.parentElement.querySelector("h1 + p + ul.simple")?.classList.add("tl-box");
  article.querySelectorAll("pre .c1").forEach(remark => {  // names a folded cell for Colab; here the name stands above
    if (!remark.textContent.startsWith("#@title")) return;
    if (remark.nextSibling && remark.nextSibling.nodeType === 3) remark.nextSibling.textContent = remark.nextSibling.textContent.replace(/^\n+/, "");
    remark.remove();
  });
  article.querySelectorAll(".highlight span:is(.n, .p, .w, .nn, :empty)").forEach(e => e.replaceWith(...e.childNodes));  // no color of their own
  article.querySelectorAll(".highlight pre").forEach(code => code.normalize());
  const answers = answersOf(article);
  unfold(article, !wish.mathml);
  answers.forEach(answer => unfold(answer.box));
  article.querySelectorAll("div.cell").forEach(cell => { if (!cell.textContent.trim() && !cell.querySelector("svg, img")) cell.remove(); });
  const exports = exported(article, wish.key);
  const all = [article, ...answers.map(answer => answer.box)];
  all.forEach(box => { ids(box, wish.key); links(box, wish); tidy(box); });
  const heads = [...article.querySelectorAll("h1, h2")].map(head => (
    {level: +head.tagName[1], text: head.textContent.trim(), id: (head.closest("section") || head).id}));
  all.forEach(box => levels(box, wish.shift));
  return {title: named, html: written(article, wish.mathml), heads, exports, sentence,
          answers: answers.map(answer => ({title: answer.title, of: `${wish.key}--${answer.of}`, html: written(answer.box, wish.mathml)}))};
}

function formulas(article, mathml) {
  const items = window.MathJax && MathJax.startup ? [...MathJax.startup.document.math] : [];
  items.filter(item => article.contains(item.typesetRoot)).forEach(item => {
    if (!mathml) {
      item.typesetRoot.querySelectorAll("mjx-assistive-mml").forEach(e => e.remove());
      item.typesetRoot.querySelector("svg").setAttribute("aria-label", item.math);
      item.typesetRoot.querySelector("svg").setAttribute("role", "img");
      return;
    }
    const math = document.importNode(new DOMParser().parseFromString(MathJax.startup.toMML(item.root), "text/xml").documentElement, true);
    [math, ...math.querySelectorAll("*")].forEach(e => [...e.attributes].forEach(a => { if (/^(data-|class$)/.test(a.name)) e.removeAttribute(a.name); }));
    math.setAttribute("alttext", item.math);
    if (item.display) math.setAttribute("display", "block");
    const around = item.typesetRoot.closest("span.math, div.math");
    (around && around.children.length === 1 && !item.display ? around : item.typesetRoot).replaceWith(math);
  });
}

// A reader's device may know no custom properties and no color-mix: their values are written down.
function resolve(article) {
  const paint = ["fill", "stroke", "color", "stop-color"], vague = /var\(|color-mix\(|light-dark\(/;
  article.querySelectorAll("*").forEach(e => {
    paint.forEach(name => { if (vague.test(e.getAttribute(name) || "")) e.setAttribute(name, getComputedStyle(e)[name]); });
    if (vague.test(e.getAttribute("style") || "")) {
      const is = getComputedStyle(e);
      e.getAttribute("style").split(";").map(rule => rule.split(":")[0].trim()).filter(Boolean)
        .forEach(name => { if (name.startsWith("--")) e.style.removeProperty(name); else e.style.setProperty(name, is.getPropertyValue(name)); });
    }
  });
}

function pictureOf(view, address) {
  const box = document.createElement("div"), image = document.createElement("img"), line = document.createElement("p");
  const spoken = view.querySelector("[data-out=say], [data-out=note], [aria-live]");
  box.className = "tl-still";
  image.src = address;
  image.alt = [view.getAttribute("aria-label"), spoken && spoken.textContent.trim()].filter(Boolean).join(". ") || "A view with controls, as it stands at first.";
  line.className = "tl-alive";
  line.textContent = "Alive in the web edition.";
  box.append(...[...view.querySelectorAll("div[id]")].map(place => Object.assign(document.createElement("span"), {id: place.id})), image, line);  // links lead to them
  view.replaceWith(box);
}

// Hints, solutions and answers leave their place, so that nobody reads them with the task.
function answersOf(article) {
  const found = new Map();
  article.querySelectorAll("details").forEach(fold => {
    if (fold.closest(".tl-answer") || !ANSWER.test(fold.querySelector("summary").textContent.trim())) return;  // a fold in an answer goes with it
    const cell = fold.closest("div.cell"), piece = fold.parentElement === cell ? cell : fold;  // a hint in a chart leaves the chart where it is
    const asked = questionOf(piece), home = asked || fold.closest("section");
    if (!found.has(home)) {
      const box = document.createElement("section"), head = home.querySelector("h1, h2, h3, h4, h5");
      found.set(home, {title: asked ? titleOf(article, asked) : head.textContent.trim(), of: home.id, box});
      box.id = `answer-${home.id}`;
      box.className = "tl-answer";
      const way = document.createElement("p"), link = document.createElement("a");
      way.className = "tl-to-answer";
      link.className = "tl-answer-link";
      link.dataset.answer = box.id;
      way.append(link);
      if (asked) piece.before(way); else home.append(way);
    }
    found.get(home).box.append(piece);
  });
  const all = [...found.values()];
  all.forEach(answer => {
    const words = [...answer.box.querySelectorAll("summary")].map(s => s.textContent.match(/\w+/)[0].toLowerCase());
    const kinds = [...new Set(words)].join(", ").replace(/, ([^,]*)$/, " and $1");
    article.querySelector(`[data-answer="${answer.box.id}"]`).textContent = kinds[0].toUpperCase() + kinds.slice(1);
  });
  return all;
}

// The question that a cell answers: the paragraph above it that begins with a number in bold. Nothing for hints and solutions.
function questionOf(piece) {
  if (!/^answer/i.test(piece.querySelector("summary").textContent.trim())) return null;
  for (let e = piece.previousElementSibling; e && !e.matches("h1, h2, h3"); e = e.previousElementSibling) {
    const number = e.firstElementChild?.matches("strong") && e.firstElementChild.textContent.match(/^(\d+)\.$/);
    if (number) {
      e.id ||= `question-${number[1]}`;
      return e;
    }
  }
  return null;
}

// "Question 3.1": the chapter's number and the question's.
function titleOf(article, asked) {
  const chapter = article.querySelector("h1")?.textContent.match(/^\s*(\d+) ·/);
  return `Question ${chapter ? chapter[1] + "." : ""}${asked.id.replace("question-", "")}`;
}

// The running sentence with its lines, for the cover: as drawn, without its controls.
function sentenceOf(article) {
  const view = article.querySelector(".tl-first");
  if (!view) return "";
  const copy = view.cloneNode(true), wide = view.getBoundingClientRect().width;
  copy.querySelectorAll("button, .tl-first-turn, .tl-first-note").forEach(e => e.remove());
  [...copy.attributes].forEach(a => { if (a.name !== "class") copy.removeAttribute(a.name); });
  copy.querySelector("svg").setAttribute("style", `width: ${wide}px; height: ${view.getBoundingClientRect().height}px`);
  copy.setAttribute("style", `width: ${wide}px; zoom: ${Math.min(1, 672 / wide).toFixed(3)}`);  // the cover's column, as in pdf.py
  return copy.outerHTML;
}

// On paper setup and drawing code is left out, and the commands of recorded runs: a line at the chapter's end says so.
function unfold(box, paper) {
  const counts = new Map();
  box.querySelectorAll("details").forEach(fold => {
    const opened = document.createElement("div"), name = document.createElement("p");
    opened.className = "tl-opened";
    name.className = "tl-opened-name";
    name.textContent = fold.querySelector("summary").textContent.trim();
    fold.querySelector("summary").remove();
    if (paper && fold.matches(".above-input") && !fold.querySelector(".tl-badge")) {
      const title = name.textContent.split(":")[0];
      counts.set(title, (counts.get(title) || 0) + 1);
      fold.remove();
      return;
    }
    if (paper && /^the commands?$/.test(name.textContent)) {
      fold.remove();
      return;
    }
    opened.append(name, ...fold.childNodes);
    fold.replaceWith(opened);
  });
  if (!counts.size) return;
  const line = document.createElement("p");
  line.className = "tl-opened-name tl-left-out";
  line.textContent = `Folded cells of the notebook that aren't printed here: ${[...counts].map(([title, n]) => n > 1 ? `${title} (${n})` : title).join(", ")}.`;
  (box.querySelector("section") || box).append(line);
}

// The names that exported cells define, each with a place to lead to.
function exported(article, key) {
  const found = [];
  article.querySelectorAll(".tl-badge").forEach(badge => {
    const module = badge.textContent.trim().replace(/^.*\/|\.py$/g, ""), code = badge.parentElement.querySelector("pre");
    if (!code) return;
    let patched = "";
    code.textContent.split("\n").forEach(line => {
      const of = line.match(/^@patch_to\((\w+)/);
      if (of) patched = of[1] + ".";
      const name = line.match(/^(?:async def|def|class) (\w+)/) || line.match(/^([A-Za-z]\w*)(?:: [^=]+)? = /);
      if (!name) return;
      if (!name[1].startsWith("_")) {
        const place = document.createElement("span");
        place.id = `export-${patched}${name[1]}`;
        if (!found.some(f => f.id === `${key}--${place.id}`)) {
          code.prepend(place);  // on the sheet where the code begins
          found.push({name: patched + name[1], module, id: `${key}--${place.id}`});
        }
      }
      patched = "";
    });
  });
  return found;
}

// Every id carries its page's key; inside a drawing also the drawing's number, for drawings repeat each other's.
let drawn = 0;
function ids(box, key) {
  const rename = (root, prefix, inside) => {
    const all = [root, ...root.querySelectorAll("*")].filter(inside), names = new Set();
    all.forEach(e => { if (e.id) { names.add(e.id); e.id = prefix + e.id; } });
    all.forEach(e => [...e.attributes].forEach(a => {
      const known = name => names.has(name) ? prefix + name : name;
      if (/^(xlink:)?href$/.test(a.name) && a.value[0] === "#" && e.namespaceURI.endsWith("svg")) a.value = "#" + known(a.value.slice(1));
      else if (a.value.includes("url(#")) a.value = a.value.replace(/url\(#([^)]+)\)/g, (_, name) => `url(#${known(name)})`);
      else if (/^(aria-(labelledby|describedby|controls)|headers|for)$/.test(a.name)) a.value = a.value.split(/\s+/).map(known).join(" ");
    }));
  };
  [box, ...box.querySelectorAll("*")].forEach(e => { if (e.id && !e.closest("svg")) e.setAttribute("data-was", e.id); });
  box.querySelectorAll("svg").forEach(svg => { if (!svg.parentElement.closest("svg")) rename(svg, `${key}--d${++drawn}-`, () => true); });
  rename(box, `${key}--`, e => !e.closest("svg"));
  box.querySelectorAll("[data-was]").forEach(e => e.removeAttribute("data-was"));
  box.removeAttribute("data-was");
}

function links(box, wish) {
  const place = (key, id) => wish.mathml ? `${key}.xhtml${id ? "#" + id : ""}` : `#${id || key}`;
  box.querySelectorAll("a").forEach(link => {
    const drawnLink = link.namespaceURI.endsWith("svg"), given = link.getAttribute("href") || link.getAttribute("xlink:href");
    if (link.dataset.answer) {
      link.setAttribute("href", wish.mathml ? `answers.xhtml#${wish.key}--${link.dataset.answer}` : `#${wish.key}--${link.dataset.answer}`);
      link.removeAttribute("data-answer");
      return;
    }
    const to = given ? new URL(given, location) : null;
    if (to && /^(https?|mailto):/.test(to.protocol) && to.origin !== location.origin) return;
    const key = to && wish.pages[to.pathname];
    link.removeAttribute("download");
    if (!key) {  // leads out of the paper edition
      const plain = drawnLink ? document.createElementNS(link.namespaceURI, "g") : document.createElement("span");
      plain.append(...link.childNodes);
      link.replaceWith(plain);
    } else {
      link.removeAttribute("xlink:href");
      link.setAttribute("href", place(key, to.hash ? `${key}--${decodeURIComponent(to.hash.slice(1))}` : ""));
    }
  });
}

function tidy(box) {
  box.querySelectorAll("[tabindex], [data-line], [onclick], [target]").forEach(e => ["tabindex", "data-line", "onclick", "target"].forEach(a => e.removeAttribute(a)));
  box.querySelectorAll("a[title]").forEach(e => e.removeAttribute("title"));
}

// On paper chapters stand below their part: headings go down by `shift`, and keep their look by a class.
function levels(box, shift) {
  box.querySelectorAll("h1, h2, h3, h4, h5").forEach(head => {
    const level = +head.tagName[1], other = document.createElement(`h${Math.min(6, level + shift)}`);
    other.className = `${head.className} tl-h${level}`.trim();
    if (head.id) other.id = head.id;
    other.append(...head.childNodes);
    head.replaceWith(other);
  });
}

function written(box, xml) {
  const whole = box.matches("article") ? [...box.childNodes] : [box];
  return whole.map(e => xml ? new XMLSerializer().serializeToString(e) : e.outerHTML ?? e.textContent).join("");
}
