({column, sheet}) => {
  // Drawings get the size of their letters, outputs stand beside their code where both have room. What is wider than the column or taller than a sheet is made smaller; what still is too wide is named. First everything is measured, then changed.
  const all = selector => [...document.querySelectorAll(selector)], box = e => e.getBoundingClientRect();
  const drawn = "svg:not(svg svg, mjx-container svg), img", web = 704;
  all("figure > [role] > div").forEach(e => {
    const first = e.querySelector(drawn);
    if (first) e.style.width = (e.style.display === "grid" ? web : first.viewBox.baseVal.width) + "px";
  });
  const pairs = all(".cell_input + .cell_output").map(out => [out.parentElement, out]).filter(([cell, out]) => !out.querySelector(".tl-still, .tl-opened"));
  const size = () => pairs.map(([cell, out]) => [box(cell).height, [...out.querySelectorAll("table, pre, " + drawn)].map(e => [box(e).width, box(e).height])]);
  const below = size();
  pairs.forEach(([cell]) => cell.classList.add("tl-beside"));
  const beside = size(), broad = pairs.map(([cell, out]) => box(cell.firstElementChild).width > column || [...out.querySelectorAll("*")].some(e => box(e).right > box(cell).right + 1 || e.matches("pre") && e.scrollWidth > e.clientWidth + 1));
  pairs.forEach(([cell], i) => {
    const smaller = beside[i][1].some(([w, h], k) => below[i][1][k][1] + 1 < h || w && w < 0.97 * below[i][1][k][0] && h !== below[i][1][k][1]);
    if (smaller || broad[i] || beside[i][0] > below[i][0] - 6) cell.classList.remove("tl-beside");
  });
  const found = [], least = 0.6;  // smaller than that nobody reads: a table breaks its words instead
  const shrink = (e, by) => {
    if (by < least && e.matches("table")) e.classList.add("tl-tight");
    e.style.zoom = by < least && e.matches("table") ? least : by;
  };
  all(":is(article, .tl-answers) :is(table, mjx-container, .tl-figure > div, .tl-claims)").forEach(e => {
    const room = Math.min(column, box(e.parentElement).right) - box(e).left;
    const wide = e.matches("mjx-container") ? box(e.firstElementChild).width : Math.max(e.scrollWidth, box(e).width);
    if (wide > room + 1 && room > 100) found.push([e, room / wide - 0.005]);
  });
  const most = sheet * 0.66;
  const tall = all(":is(article, .tl-answers) :is(svg, img)").filter(e => !e.ownerSVGElement && !e.closest("mjx-container") && box(e).height > most);
  found.forEach(([e, by]) => { if (!found.some(([other]) => other !== e && other.contains(e))) shrink(e, by); });
  tall.forEach(e => { e.style.height = "auto"; e.style.maxHeight = most + "px"; e.style.width = "auto"; });
  // A cell of more than a seventh of a sheet may be broken.
  all("div.cell").filter(cell => box(cell).height > sheet / 7).forEach(cell => cell.classList.add("tl-long"));
  const wide = all(":is(article, .tl-answers) *").filter(e => !e.ownerSVGElement && box(e).right > column + 2)
    .map(e => `${e.closest("article, section[id]")?.id}: ${e.tagName.toLowerCase()}.${e.getAttribute("class") || ""} ${Math.round(box(e).right)}`);
  return {smaller: found.length + tall.length, wide: wide.slice(0, 40)};
}
