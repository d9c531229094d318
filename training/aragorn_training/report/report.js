// Sortable tables, documents of chosen systems side by side, and charts.
const MAX_CHOSEN = 4; // systems whose documents stand side by side
const data = JSON.parse(document.getElementById("data").textContent);
const { chosen } = data;

function addButton(heading, action) {
  const button = document.createElement("button");
  button.append(...heading.childNodes);
  button.addEventListener("click", action);
  heading.append(button);
}

function sortRows(heading) {
  const [body] = heading.closest("table").tBodies;
  const first = heading.cellIndex ? "descending" : "ascending"; // names from A, numbers from the largest
  const second = heading.cellIndex ? "ascending" : "descending";
  const order = heading.getAttribute("aria-sort") === first ? second : first;
  heading.parentElement.querySelector("[aria-sort]")?.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", order);
  const read = row => row.cells[heading.cellIndex].dataset.value ?? row.cells[0].textContent;
  const { compare } = new Intl.Collator("en", { numeric: true });
  const compareRows = heading.cellIndex ? (a, b) => read(a) - read(b) : (a, b) => compare(read(a), read(b));
  const sorted = [...body.rows].sort(compareRows);
  body.append(...(order === "ascending" ? sorted : sorted.reverse()));
}

function toggleSystem(system) {
  if (chosen.includes(system)) chosen.splice(chosen.indexOf(system), 1);
  else if (chosen.push(system) > MAX_CHOSEN) chosen.shift();
}

function showDocuments(topic) {
  const columns = topic.querySelector(".columns");
  columns.replaceChildren();
  for (const row of topic.querySelectorAll("tbody tr")) {
    const isChosen = chosen.includes(row.dataset.system);
    row.querySelector("button").setAttribute("aria-pressed", isChosen);
    if (!isChosen) continue;
    const column = document.createElement("section");
    column.append(Object.assign(document.createElement("h3"), { textContent: row.dataset.system }));
    for (const link of row.querySelectorAll("a")) {
      const copy = document.querySelector(link.hash).cloneNode(true);
      copy.removeAttribute("id");
      copy.addEventListener("click", () => copy.classList.toggle("open"));
      column.append(copy);
    }
    columns.append(column);
  }
}

for (const heading of document.querySelectorAll(".sortable thead tr:last-child th"))
  addButton(heading, () => sortRows(heading));
for (const topic of document.querySelectorAll("details.topic")) {
  topic.addEventListener("toggle", () => showDocuments(topic));
  for (const row of topic.querySelectorAll("tbody tr"))
    addButton(row.cells[0], () => {
      toggleSystem(row.dataset.system);
      showDocuments(topic);
    });
}
const actions = { export: true, source: false, compiled: false, editor: false };
for (const chart of document.querySelectorAll(".chart")) {
  const { view } = await vegaEmbed(chart, CHARTS[chart.id](data, chart.clientWidth), { renderer: "svg", actions });
  view.addEventListener("click", (event, item) => {
    if (!item?.datum?.number) return;
    const topic = document.getElementById(`t${item.datum.number}`);
    if (!chosen.includes(item.datum.system)) toggleSystem(item.datum.system);
    topic.open = true;
    showDocuments(topic);
    topic.scrollIntoView();
  });
}
