"use strict";
// Tables: headers sort, and edges show where a table goes on.
const tables = (() => {
  function sortable(table) {
    const heads = [...table.querySelectorAll("th")];
    for (const [column, head] of heads.entries()) {
      head.setAttribute("aria-sort", "none");
      head.firstElementChild.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const other of heads) other.setAttribute("aria-sort", "none");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        sortRows(table.tBodies[0], column, head.classList.contains("number"), down ? -1 : 1);
      });
    }
  }

  function sortRows(body, column, numeric, sign) {
    const key = (row) => {
      const cell = row.cells[column];
      return numeric ? parseFloat(cell.dataset.value) : cell.textContent;
    };
    const compare = (a, b) => {
      const [one, other] = [key(a), key(b)];
      if (!numeric) return sign * one.localeCompare(other, "en", { numeric: true });
      // What was not measured stays at the end either way.
      if (isNaN(one) || isNaN(other)) return isNaN(one) - isNaN(other);
      return sign * (one - other);
    };
    body.append(...[...body.rows].sort(compare));
  }

  // A frame says on which sides its box can be scrolled; the style sheet draws a shadow there.
  function watch(frame) {
    const box = frame.firstElementChild;
    const look = () => {
      const { scrollLeft, scrollTop, clientWidth, clientHeight, scrollWidth, scrollHeight } = box;
      frame.classList.toggle("left", scrollLeft > 1);
      frame.classList.toggle("right", scrollLeft + clientWidth < scrollWidth - 1);
      frame.classList.toggle("below", scrollTop + clientHeight < scrollHeight - 1);
      // Only what scrolls is a stop of the Tab key.
      if (scrollWidth > clientWidth + 1 || scrollHeight > clientHeight + 1) box.setAttribute("tabindex", 0);
      else box.removeAttribute("tabindex");
    };
    box.addEventListener("scroll", look, { passive: true });
    new ResizeObserver(look).observe(box);
    look();
  }

  return { sortable, watch };
})();
