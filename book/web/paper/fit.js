({column, sheet}) => {
  // What is wider than the column or taller than a sheet is made smaller; what still is too wide is named. First everything is measured, then changed.
  const all = selector => [...document.querySelectorAll(selector)], box = e => e.getBoundingClientRect();
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
  // A cell that would fit on a sheet with smaller drawings gets them, down to half their size.
  const over = all("div.cell").map(cell => [cell, box(cell).height - sheet * 0.98]).filter(([, by]) => by > 0).map(([cell, by]) => {
    const drawn = [...cell.querySelectorAll("svg, img")].filter(e => !e.ownerSVGElement && !e.closest("mjx-container") && box(e).height > 100);
    if (!drawn.length) return [];
    const whole = Math.max(...drawn.map(e => box(e).bottom)) - Math.min(...drawn.map(e => box(e).top)), part = (whole - by) / whole;
    return part > 0.5 ? drawn.map(e => [e, box(e).height * part - 2]) : [];
  }).flat();
  over.forEach(([e, height]) => { e.style.height = "auto"; e.style.width = "auto"; e.style.maxHeight = height + "px"; });
  const wide = all(":is(article, .tl-answers) *").filter(e => !e.ownerSVGElement && box(e).right > column + 2)
    .map(e => `${e.closest("article, section[id]")?.id}: ${e.tagName.toLowerCase()}.${e.getAttribute("class") || ""} ${Math.round(box(e).right)}`);
  return {smaller: found.length + tall.length + over.length, wide: wide.slice(0, 40)};
}
