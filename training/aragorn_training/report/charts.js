// Specifications of the charts in Vega-Lite, of the data that the report embeds.
const ROW_HEIGHT = 17; // pixels
const LABEL_WIDTH = 180; // pixels beside a heat map of systems
const MIN_STEP = 12; // pixels of a column that has a name
const COLOURS = ["#0b4f8a", "#d1702b", "#2f8f5b", "#8b4fa3", "#b3261e", "#6b7280"];
const DASHES = [[1, 0], [6, 2], [2, 2]];
const SHARE = { domain: [0, 1], scheme: "yellowgreenblue" };
const CORRELATION = { domain: [-1, 1], scheme: "purplegreen" };

const nominal = (field, settings = {}) => ({ field, type: "nominal", title: null, ...settings });
const quantitative = (field, settings = {}) => ({ field, type: "quantitative", ...settings });
const distinct = (rows, field) => [...new Set(rows.map(row => row[field]))];

function draw(values, height, mark, encoding, settings = {}) {
  const config = { legend: { orient: "top", columns: Math.max(1, Math.floor(innerWidth / 170)), labelLimit: 240 } };
  return { data: { values }, width: "container", height, mark, encoding, config, ...settings };
}

// `value` of rows as colours, with tooltips; where names of columns would collide, row numbers stand for them
function drawHeatMap(rows, x, y, tooltip, scale, width, settings) {
  const [columns, lines] = [x, y].map(axis => distinct(rows, axis.field).length);
  const isNumbered = x.field === "system" && (width - LABEL_WIDTH) / columns < MIN_STEP;
  const labelExpr = "indexof(domain('y'), datum.value) + 1 + ' ' + datum.value";
  const labels = isNumbered
    ? { labelExpr: "indexof(domain('x'), datum.value) + 1", labelOverlap: "greedy" }
    : { labelOverlap: x.field === "system" ? false : "greedy", labelLimit: 200 };
  const encoding = {
    x: nominal(x.field, { sort: x.sort, axis: { orient: "top", labelAngle: -90, ...labels } }),
    y: nominal(y.field, { sort: y.sort, axis: { labelLimit: 400, ...(isNumbered && { labelExpr }) } }),
    color: quantitative("value", { scale, title: null, legend: { direction: "horizontal", gradientLength: 160 } }),
    tooltip,
  };
  const mark = { type: "rect", stroke: "white", invalid: null, cursor: "pointer" };
  return draw(rows, ROW_HEIGHT * lines, mark, encoding, settings);
}

// names of a field by colour and another channel, with a legend that selects
function drawCategories(rows, height, mark, field, channel, range, encoding) {
  const domain = distinct(rows, field);
  const repeat = (values, width = 1) => domain.map((_, row) => values[Math.floor(row / width) % values.length]);
  return draw(rows, height, mark, {
    color: nominal(field, { scale: { domain, range: repeat(COLOURS) } }),
    [channel]: nominal(field, { scale: { domain, range: repeat(range, channel === "shape" ? 1 : COLOURS.length) } }),
    opacity: { condition: { param: "chosen", value: 1 }, value: 0.1 },
    ...encoding,
  }, { params: [{ name: "chosen", bind: "legend", select: { type: "point", fields: [field] } }] });
}

function drawTopics({ topics, systems, measure }, width) {
  const qrels = distinct(topics, "qrels");
  const bind = qrels.length > 1 ? { input: "select", options: qrels, name: "Judgments: " } : undefined;
  const hardestFirst = { field: "value", op: "mean", order: "ascending" };
  const difference = quantitative("difference", { format: "+.3f", title: "against the baseline" });
  const values = [quantitative("value", { format: ".3f", title: measure }), difference];
  const tooltip = [nominal("topic", { title: "topic" }), nominal("system", { title: "system" }), ...values];
  const bySystem = { field: "system", sort: systems };
  const axes = width < 600
    ? [{ field: "qid", sort: hardestFirst }, bySystem]
    : [bySystem, { field: "topic", sort: hardestFirst }];
  return drawHeatMap(topics, ...axes, tooltip, SHARE, width, {
    params: [{ name: "judgments", value: qrels[0], bind }],
    transform: [{ filter: "datum.qrels === judgments" }],
  });
}

function drawSimilarity({ similarity, clustered }, field, scale, width) {
  const rows = similarity.map(row => ({ ...row, value: row[field] }));
  const values = [quantitative("value", { format: ".2f", title: field })];
  const tooltip = [nominal("other", { title: "other" }), nominal("system", { title: "system" }), ...values];
  const axes = ["system", "other"].map(name => ({ field: name, sort: clustered }));
  return drawHeatMap(rows, ...axes, tooltip, scale, width, { title: field });
}

function drawRecall({ recall, systems }) {
  const mark = { type: "point", filled: true, size: 55 };
  return drawCategories(recall, ROW_HEIGHT * systems.length, mark, "depth", "shape", ["circle", "square", "triangle"], {
    x: quantitative("recall", { scale: { domain: [0, 1] }, title: "share of relevant documents" }),
    y: nominal("system", { sort: systems, axis: { grid: true } }),
    tooltip: [nominal("system"), nominal("depth"), quantitative("recall", { format: ".3f" })],
  });
}

function drawCandidates({ candidates }) {
  const domain = distinct(candidates, "found");
  const rows = candidates.map(row => ({ ...row, position: domain.indexOf(row.found) }));
  return draw(rows, 220, { type: "bar", stroke: "white" }, {
    x: nominal("qid", { sort: distinct(rows, "qid"), title: "topic", axis: { labelOverlap: true } }),
    y: quantitative("n", { title: "relevant documents" }),
    color: nominal("found", { scale: { domain, range: ["#0b4f8a", "#8fb8de", "#d9d9d9"] } }),
    order: quantitative("position"),
    tooltip: [nominal("qid", { title: "topic" }), nominal("found", { title: "retrieved" }), quantitative("n")],
  });
}

function drawLearningCurves({ curves }) {
  return drawCategories(curves, 320, { type: "line", point: true }, "network", "strokeDash", DASHES, {
    x: quantitative("share", { axis: { format: "%" }, title: "share of the training" }),
    y: quantitative("value", { scale: { domain: [0, 100] }, title: "validation (%)" }),
    tooltip: [nominal("network"), nominal("measure"), quantitative("epoch"), quantitative("value"), quantitative("loss")],
  });
}

const CHARTS = {
  "heat-map": drawTopics,
  recall: drawRecall,
  candidates: drawCandidates,
  jaccard: (data, width) => drawSimilarity(data, "Jaccard index", SHARE, width),
  spearman: (data, width) => drawSimilarity(data, "Spearman correlation", CORRELATION, width),
  "learning-curves": drawLearningCurves,
};
