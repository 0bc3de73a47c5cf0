// Draws every chart of the page. Options are plain JSON, which has no functions: a string "=name" stands for one of these.
const scaled = (value, step, units) => {
  let unit = 0;
  while (Math.abs(value) >= step && unit + 1 < units.length) { value /= step; unit += 1; }
  return Number(value.toPrecision(3)) + units[unit];
};
const formats = {
  bytes: (value) => scaled(value, 1024, [" B", " KiB", " MiB", " GiB", " TiB"]),
  count: (value) => scaled(value, 1000, ["", " k", " M", " G"]),
  seconds: (value) => Number(Number(value).toPrecision(3)) + " s",
  percent: (value) => Number((value * 100).toPrecision(3)) + " %",
};
["B", "KiB", "MiB", "GiB", "TiB"].forEach((unit, power) => {
  formats[unit] = (value) => Number((value / 1024 ** power).toPrecision(4)) + " " + unit;
});
// A label's argument is an object with the value in it; an axis' or a tooltip's is the value itself.
const formatter = (name) => (given) => {
  let value = given !== null && typeof given === "object" && !Array.isArray(given) ? given.value : given;
  if (Array.isArray(value)) value = value[value.length - 1];
  return value === null || value === undefined || Number.isNaN(Number(value)) ? "" : formats[name](Number(value));
};
const withFunctions = (value) => {
  if (typeof value === "string" && value[0] === "=" && formats[value.slice(1)]) return formatter(value.slice(1));
  if (Array.isArray(value)) return value.map(withFunctions);
  if (value !== null && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, withFunctions(inner)]));
  }
  return value;
};
const charts = [];
for (const place of document.querySelectorAll(".chart")) {
  const option = JSON.parse(document.getElementById(place.dataset.option).textContent);
  const chart = echarts.init(place, null, { renderer: "canvas" });
  chart.setOption(withFunctions({
    color: ["#2f6fb0", "#e0823d", "#3f9c6b", "#b2476d", "#7a62b8", "#8a9099", "#c2a12e", "#2aa0b5", "#6d8f2f", "#d05a4e"],
    animation: false,
    textStyle: { fontFamily: getComputedStyle(document.body).fontFamily },
    ...option,
  }));
  charts.push(chart);
}
addEventListener("resize", () => charts.forEach((chart) => chart.resize()));
