// Each column of a table sorts its rows: numbers by value, other text by letters, dashes last.
const compareText = new Intl.Collator("en", { numeric: true }).compare;

function compare(one, other, sign) {
  if (one === "-" || other === "-") return (one === "-") - (other === "-");
  const numbers = [one, other].map((text) => Number.parseFloat(text.replace(/[,<]/g, "")));
  const [a, b] = numbers;
  const apart = numbers.some(Number.isNaN) ? compareText(one, other) : a - b;
  return sign * apart;
}

function sortBy(head, column) {
  const table = head.closest("table");
  const rows = [...table.tBodies[0].rows];
  const up = head.getAttribute("aria-sort") !== "ascending";
  const text = (row) => row.cells[column].textContent.trim();
  rows.sort((one, other) => compare(text(one), text(other), up ? 1 : -1));
  table.tBodies[0].append(...rows);
  for (const each of head.parentElement.cells) each.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
}

for (const table of document.querySelectorAll("table")) {
  const around = document.createElement("div");
  around.className = "scroll";
  table.replaceWith(around);
  around.append(table);
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    if (!head.textContent) return;
    const button = document.createElement("button");
    button.append(...head.childNodes);
    button.addEventListener("click", () => sortBy(head, column));
    head.append(button);
  });
}
