/* Columns are sorted by a click or Enter on their heads: numbers as numbers. */
document.querySelectorAll("table.sortable").forEach(table => {
  const body = table.tBodies[0];
  table.querySelectorAll("thead th").forEach((head, column) => {
    head.tabIndex = 0;
    const sort = () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      const key = row => { const text = (row.cells[column].dataset.value || row.cells[column].textContent).trim(); const value = parseFloat(text); return [text === "", Number.isNaN(value) ? text : value]; };
      const rows = [...body.rows].map(row => [key(row), row]);
      rows.sort(([a], [b]) => a[0] - b[0] || (up ? 1 : -1) * (typeof a[1] === "number" && typeof b[1] === "number" ? a[1] - b[1] : String(a[1]).localeCompare(String(b[1]))));
      rows.forEach(([, row]) => body.append(row));
      table.querySelectorAll("thead th").forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", event => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); sort(); } });
  });
});
