"use strict";
// The page's behaviour. Every text of a run reaches the document as a text node; nothing here builds markup from data.
(() => {
  const $ = (id) => document.getElementById(id);
  const el = (tag, attributes, ...children) => {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes || {})) {
      if (value === undefined || value === null || value === false) continue;
      if (key === "class") node.className = value;
      else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
      else if (key === "style") Object.assign(node.style, value);
      else node.setAttribute(key, value === true ? "" : value);
    }
    node.append(...children.filter((child) => child !== undefined && child !== null && child !== false));
    return node;
  };
  const svg = (tag, attributes) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  };
  const RUNS = ["#3b82f6", "#f97316", "#10b981", "#a855f7", "#ef4444", "#ca8a04", "#0891b2", "#db2777"];
  const BANDS = [[100, "#0d9488", "S"], [70, "#65a30d", "A"], [40, "#ca8a04", "B"], [10, "#ea580c", "C"], [0, "#dc2626", "F"]];
  const band = (emotion) => BANDS.find(([low]) => emotion >= low) || BANDS[4];
  const tongue = { zh: "zh-CN", en: "en" };
  const words = (name) => name.replaceAll("-", " ");

  let data = JSON.parse($("data").textContent);
  let byId = new Map();
  let shown = [];
  let open = null;
  let unfolded = false;
  const COLOURS = [["ad", "advantage"], ["lp", "log-probability"], ["ra", "ratio"], ["va", "value"], ["", "nothing"]];
  let wish = "ad", colourBy = "ad";

  // ---- light and dark
  const system = matchMedia("(prefers-color-scheme: dark)");
  const stored = () => { try { return localStorage.getItem("rlver-theme"); } catch { return null; } };
  const dark = () => document.documentElement.dataset.theme === "dark";
  const setTheme = (theme) => { document.documentElement.dataset.theme = theme; restyle(); };
  const toggleTheme = () => {
    const theme = dark() ? "light" : "dark";
    try { localStorage.setItem("rlver-theme", theme); } catch { /* a page from disk may have no storage */ }
    setTheme(theme);
  };
  document.documentElement.dataset.theme = stored() || (system.matches ? "dark" : "light");
  system.addEventListener("change", () => { if (!stored()) setTheme(system.matches ? "dark" : "light"); });

  // ---- runs
  const showRuns = () => {
    $("runs").replaceChildren(...data.runs.map((run, r) => {
      const figures = run.figures.map((figure) => el("div", { class: "figure" },
        el("div", { class: "label" }, figure.label),
        el("div", { class: "value" }, figure.value, " ",
          figure.from && el("span", { class: "from" }, "from " + figure.from + " "),
          figure.change && el("span", { class: "change " + (figure.good === null ? "" : figure.good ? "good" : "bad") }, figure.change)),
        el("div", { class: "detail" }, figure.detail || "")));
      return el("div", { class: "run" },
        el("h1", {}, data.runs.length > 1 && el("span", { class: "dot", style: { background: RUNS[r % RUNS.length] } }) || "", run.name),
        el("p", { class: "facts" }, ...run.facts.map(([label, value]) => el("span", {}, label + " ", el("b", {}, value)))),
        el("div", { class: "figures" }, ...figures));
    }));
    $("foot").replaceChildren("Made by rlver " + data.version + ". Everything is in this file; it loads nothing.");
    $("nav").replaceChildren(...[["curves", "Training curves"], ["dialogues", "Dialogues"], ...data.sections.filter((s) => s.id !== "curves").map((s) => [s.id, s.title])]
      .filter(([id]) => id !== "curves" || data.sections.some((s) => s.id === id))
      .map(([id, title]) => el("a", { href: "#" + id }, title)));
    $("live").hidden = !data.live;
  };

  // ---- charts
  const charts = new Map();
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  // A legend of many rows gets room of its own instead of the curves'.
  const legendRows = (chart, width) => {
    const names = chart.layout.showlegend === false ? [] : chart.data.filter((t) => t.name && t.showlegend !== false).map((t) => t.name.length * 7 + 45);
    return Math.ceil(names.length / Math.max(1, Math.floor((width - 60) / Math.max(1, ...names))));
  };
  const dressed = (chart, width) => {
    const [ink, muted, line, card] = ["--ink", "--muted", "--line", "--card"].map(css);
    const axis = { gridcolor: line, zerolinecolor: line, linecolor: line, tickcolor: line, automargin: true, title: { standoff: 8 } };
    const layout = structuredClone(chart.layout);
    layout.height = chart.height + 18 * Math.max(0, legendRows(chart, width) - 2);
    layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
    layout.font = { family: getComputedStyle(document.body).fontFamily, size: 12, color: muted };
    layout.margin = { l: 48, r: 12, t: 8, b: 36 };
    layout.legend = { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { color: ink }, bgcolor: "rgba(0,0,0,0)", ...layout.legend };
    layout.hoverlabel = { bgcolor: card, bordercolor: line, font: { color: ink }, namelength: -1 };
    for (const key of ["xaxis", "yaxis"]) {
      const own = layout[key] || {};
      layout[key] = { ...axis, ...own, title: { ...axis.title, ...own.title } };
    }
    if (layout.polar) {
      layout.polar.bgcolor = "rgba(0,0,0,0)";
      for (const key of ["radialaxis", "angularaxis"]) layout.polar[key] = { gridcolor: line, linecolor: line, ...layout.polar[key] };
      layout.margin = { l: 110, r: 110, t: 20, b: 30 };
    }
    const traces = structuredClone(chart.data);
    for (const trace of traces) {
      if (trace.meta === "sequential") trace.colorscale = [[0, css("--low")], [0.5, dark() ? "#2f6ad0" : "#7fb0ff"], [1, dark() ? "#b9d4ff" : "#123f9e"]];
      if (trace.meta === "diverging") trace.colorscale = [[0, "#dc2626"], [0.5, css("--mid")], [1, "#0d9488"]];
      if (trace.meta) trace.colorbar = { thickness: 10, outlinewidth: 0, tickfont: { color: muted } };
      if (trace.type === "bar") trace.error_y = { ...trace.error_y, color: muted };
      if (trace.meta) { trace.xgap = 1; trace.ygap = 1; }
    }
    return [traces, layout];
  };
  // plotly.js is most of this file. It lies here as text and is started once the page can be read.
  const startPlotly = () => {
    const script = document.createElement("script");
    script.textContent = $("plotly").textContent;
    document.head.append(script);
    for (const holder of charts.keys()) seen.observe(holder);
  };
  const CONFIG = { responsive: true, displaylogo: false, displayModeBar: false };
  const draw = (holder) => {
    const chart = charts.get(holder);
    if (!chart || !window.Plotly) return;
    const [traces, layout] = dressed(chart, holder.clientWidth);
    holder.dataset.drawn = "yes";
    Plotly.react(holder, traces, layout, CONFIG);
  };
  const restyle = () => { for (const holder of charts.keys()) if (holder.dataset.drawn) draw(holder); };
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) { seen.unobserve(entry.target); draw(entry.target); }
  }, { rootMargin: "400px" });
  const showSections = () => {
    const old = [...charts.keys()];
    const wanted = data.sections.flatMap((s) => s.charts);
    if (old.length === wanted.length && old.every((holder, i) => charts.get(holder).title === wanted[i].title)) {
      // The same charts with new numbers: they keep their place and zoom.
      old.forEach((holder, i) => { charts.set(holder, wanted[i]); if (holder.dataset.drawn) draw(holder); });
      return;
    }
    charts.clear();
    const place = (id, sections) => $(id).replaceChildren(...sections.map((section) => el("section", { id: section.id },
      el("h2", {}, section.title), el("p", { class: "note" }, section.note),
      el("div", { class: "charts" }, ...section.charts.map((chart) => {
        const holder = el("div", { class: "plot", role: "img", "aria-label": chart.title, style: { minHeight: chart.height + "px" } });
        charts.set(holder, chart);
        return el("div", { class: "chart" + (chart.wide ? " wide" : "") }, el("h3", {}, chart.title), el("p", { class: "note" }, chart.note), holder);
      })))));
    place("first", data.sections.filter((s) => s.id === "curves"));
    place("sections", data.sections.filter((s) => s.id !== "curves"));
    if (window.Plotly) for (const holder of charts.keys()) seen.observe(holder);
  };

  // ---- finding dialogues
  const filters = [
    ["f-run", "all runs", () => data.runs.map((run, r) => [String(r), run.name]), (d) => String(d.run)],
    ["f-stage", "all steps", () => [...new Map(data.dialogues.map((d) => [d.stage, d.stage]))], (d) => d.stage],
    ["f-intention", "all intentions", () => data.intentions.map((i) => [i, words(i)]), (d) => d.intention],
    ["f-end", "all outcomes", () => data.endings.map((e) => [e, e]), (d) => d.end],
    ["f-character", "all characters", () => data.characters.map((c) => [c, c]), (d) => d.character],
    ["f-lang", "all languages", () => [["zh", "中文"], ["en", "English"]], (d) => d.lang],
  ];
  const ORDERS = [
    ["time", "in order of time", (a, b) => a.at - b.at],
    ["best", "best first", (a, b) => (b.counted ?? -1) - (a.counted ?? -1) || a.at - b.at],
    ["worst", "worst first", (a, b) => (a.counted ?? 101) - (b.counted ?? 101) || a.at - b.at],
    ["rise", "largest rise first", (a, b) => (b.e1 - b.e0) - (a.e1 - a.e0) || a.at - b.at],
  ];
  const fillFilters = () => {
    for (const [id, all, options] of filters) {
      const select = $(id), kept = select.value, list = options();
      select.replaceChildren(el("option", { value: "" }, all), ...list.map(([value, label]) => el("option", { value }, label)));
      if (list.some(([value]) => value === kept)) select.value = kept;
      select.hidden = list.length < 2;
    }
    const kept = $("sort").value;
    $("sort").replaceChildren(...ORDERS.map(([value, label]) => el("option", { value }, label)));
    if (kept) $("sort").value = kept;
  };
  const saidIn = (d) => d.hay ??= [d.profile, d.opening, ...d.turns.flatMap((t) => [t.th, t.re, t.u && t.u.say, ...(t.u ? t.u.ap.slice(0, 4) : [])])]
    .filter(Boolean).join("\n").toLowerCase();
  const gist = (d, wanted) => {
    const text = saidIn(d), at = wanted ? text.indexOf(wanted) : -1;
    if (at < 0) return [d.turns.length ? d.turns[d.turns.length - 1].re : d.opening];
    const from = Math.max(0, at - 18);
    return [(from ? "…" : "") + text.slice(from, at).replaceAll("\n", " "), el("mark", {}, text.slice(at, at + wanted.length)), text.slice(at + wanted.length, at + wanted.length + 60).replaceAll("\n", " ")];
  };
  const score = (d) => d.counted === null ? el("span", { class: "score" }, "unscored")
    : el("span", { class: "score", style: { color: band(d.counted)[1] } }, `${d.e0} → ${d.counted}`);
  const search = () => {
    const wanted = $("search").value.trim().toLowerCase();
    const active = filters.map(([id, , , value]) => [$(id).value, value]).filter(([value]) => value);
    shown = data.dialogues.filter((d) => active.every(([value, of]) => of(d) === value) && (!wanted || saidIn(d).includes(wanted)));
    shown.sort((ORDERS.find(([id]) => id === $("sort").value) || ORDERS[0])[2]);
    $("count").textContent = shown.length === data.dialogues.length ? `${shown.length} dialogues` : `${shown.length} of ${data.dialogues.length} dialogues`;
    $("list").replaceChildren(...shown.map((d) => el("li", {},
      el("button", { type: "button", "data-id": d.id, "aria-current": open === d.id ? "true" : null, onclick: () => show(d.id, true) },
        el("div", { class: "row" }, el("span", { class: "who" }, words(d.intention)), score(d)),
        el("div", { class: "sub" }, `${d.stage} · ${d.character} · ${d.turns.length} replies` + (["success", "failure", "in between"].includes(d.end) ? "" : " · " + d.end)),
        el("div", { class: "sub", lang: tongue[d.lang] }, ...gist(d, wanted))))));
  };
  const showHighlights = () => {
    const item = (id, label) => {
      const d = byId.get(id);
      return d && el("li", {}, el("button", { type: "button", onclick: () => show(id, true) }, label || score(d),
        el("span", { class: "what" }, `${words(d.intention)} · ${d.stage}`)));
    };
    const list = (title, items, note) => items.filter(Boolean).length > 0 && el("div", { class: "highlight" }, el("h3", {}, title, note && el("span", { class: "note" }, " " + note)), el("ol", {}, ...items.filter(Boolean)));
    const gain = ([early, late]) => {
      const [a, b] = [byId.get(early), byId.get(late)];
      return a && b && item(late, el("span", { class: "score", style: { color: band(b.counted)[1] } }, `${a.counted} ⇒ ${b.counted}`));
    };
    $("highlights").replaceChildren(...[
      list("Best", data.best.map((id) => item(id))), list("Worst", data.worst.map((id) => item(id))),
      list("Most improved", data.improved.map(gain), "the same person, early and late"),
    ].filter(Boolean));
  };

  // ---- one dialogue
  const meter = (d) => {
    const points = [d.e0, ...d.turns.filter((t) => t.u).map((t) => t.u.a)];
    const [w, h] = [Math.max(280, ($("pane").clientWidth || innerWidth - 24) - 48), 96], x = (i) => 26 + (w - 44) * i / Math.max(1, points.length - 1), y = (e) => 8 + (h - 24) * (1 - e / 100);
    const picture = svg("svg", { viewBox: `0 0 ${w} ${h}`, class: "meter", role: "img", "aria-label": "Emotion: " + points.join(", ") });
    let top = 100;
    for (const [low, colour] of BANDS) {
      picture.append(svg("rect", { x: 0, width: w, y: y(top), height: Math.max(0, y(low) - y(top)), fill: colour, opacity: .09 }));
      top = low;
    }
    picture.append(svg("polyline", { points: points.map((e, i) => `${x(i)},${y(e)}`).join(" "), fill: "none", stroke: css("--muted"), "stroke-width": 1.5 }));
    points.forEach((e, i) => {
      const dot = svg("circle", { cx: x(i), cy: y(e), r: 4.5, fill: band(e)[1] });
      const label = svg("text", { x: x(i), y: h - 4, "text-anchor": "middle", "font-size": 11, fill: css("--muted") });
      label.textContent = e;
      picture.append(dot, label);
    });
    return picture;
  };
  const tint = (key, value, reach) => {
    if (value === undefined || value === null || !key) return "";
    const off = value - (key === "ra" ? 1 : 0);
    return `rgba(var(--${off < 0 ? "minus" : "plus"}), ${(0.42 * Math.min(1, Math.abs(off) / (reach || 1))).toFixed(3)})`;
  };
  const reach = (d) => {
    const all = d.turns.flatMap((t) => (t.tk && t.tk[colourBy]) || []).filter((v) => v !== null).map((v) => Math.abs(v - (colourBy === "ra" ? 1 : 0)));
    all.sort((a, b) => a - b);
    return all[Math.floor(all.length * .95)] || 1;
  };
  const tokens = (turn, from, to, far) => {
    const k = turn.tk, nodes = [];
    for (let i = from; i < to; i++) {
      const text = k.tx[i], value = colourBy && k[colourBy] ? k[colourBy][i] : undefined;
      const node = el("span", { class: "tk" + (text ? /^<\|.*\|>$/.test(text) ? " special" : "" : " part"), tabindex: i === from ? "0" : "-1" }, text);
      node.style.backgroundColor = tint(colourBy, value, far);
      node.token = [k, i];
      nodes.push(node);
    }
    return nodes;
  };
  const number = (v) => v === null || v === undefined ? "–" : String(v);
  const tip = $("tip");
  const explain = (node) => {
    const [k, i] = node.token;
    const row = (name, value) => el("tr", {}, el("td", {}, name), el("td", {}, value));
    const rows = [row("id", number(k.id[i]))];
    if (k.lp) rows.push(row("logprob", number(k.lp[i]) + (k.lp[i] === null ? "" : ` (${(100 * Math.exp(k.lp[i])).toFixed(1)} %)`)));
    for (const [key, name] of [["ra", "ratio"], ["ad", "advantage"], ["va", "value"]]) rows.push(row(name, k[key] ? number(k[key][i]) : "not recorded"));
    tip.replaceChildren(el("div", {}, k.tx ? JSON.stringify(k.tx[i] || "(part of a character)") : "token"), el("table", {}, ...rows));
    tip.hidden = false;
    const at = node.getClientRects()[0] || node.getBoundingClientRect(), box = tip.getBoundingClientRect();
    tip.style.left = Math.max(6, Math.min(innerWidth - box.width - 6, at.left)) + "px";
    tip.style.top = (at.top - box.height - 8 < 4 ? at.bottom + 8 : at.top - box.height - 8) + "px";
  };
  for (const [on, off] of [["mouseover", "mouseout"], ["focusin", "focusout"]]) {
    document.addEventListener(on, (event) => { if (event.target.token) explain(event.target); });
    document.addEventListener(off, (event) => { if (event.target.token) tip.hidden = true; });
  }
  document.addEventListener("click", (event) => { if (event.target.token) explain(event.target); });
  addEventListener("scroll", () => {
    if (tip.hidden) return;
    // A token that is still pointed at keeps its numbers beside it.
    const held = [...document.querySelectorAll(".tk:hover, .tk:focus")].find((node) => node.token);
    if (held) explain(held); else tip.hidden = true;
  }, { passive: true });

  const CHAIN = ["content", "fit to the hidden intention", "inner activity", "feeling"];
  const showTurn = (d, turn, t, far) => {
    const lang = tongue[d.lang], parts = [];
    let thought = turn.th ? [turn.th] : null, reply = [turn.re];
    if (turn.tk && turn.tk.tx) {
      // The sampled tokens themselves; thoughts end with their closing tag.
      let cut = 0;
      if (d.mode === "think") {
        const ends = turn.tk.tx.join("").lastIndexOf("</think>");
        for (let at = 0; ends >= 0 && cut < turn.tk.tx.length && at < ends + 8; cut++) at += turn.tk.tx[cut].length;
      }
      if (cut) thought = tokens(turn, 0, cut, far);
      reply = tokens(turn, cut, turn.tk.tx.length, far);
    } else if (turn.tk) {
      reply = [turn.re, " ", ...turn.tk.id.map((id, i) => { const node = el("span", { class: "tk part", tabindex: "-1" }); node.token = [turn.tk, i]; return node; })];
    }
    parts.push(el("div", { class: "who-says reply" }, `reply ${t + 1}` + (turn.bad ? " · broke the format" : "")));
    if (thought) parts.push(el("details", { class: "aside", open: unfolded }, el("summary", {}, "thoughts"), el("div", { class: "thought", lang }, ...thought)));
    parts.push(el("div", { class: "say reply", lang }, ...reply));
    if (turn.st.length) parts.push(el("div", { class: "labels" }, ...turn.st.map((s) => el("span", { class: "chip" }, words(s)))));
    if (turn.u) {
      const change = turn.u.a - turn.u.b, asked = turn.u.ap[4];
      parts.push(el("details", { class: "chain", open: unfolded },
        el("summary", {}, el("span", { class: "pill", style: { background: band(turn.u.a)[1] } }, `${turn.u.b} → ${turn.u.a}`, el("span", {}, (change > 0 ? "+" : "") + change)),
          "how it was taken" + (turn.u.guard ? ` · guard: ${words(turn.u.guard)}` : "")),
        el("dl", { lang }, ...CHAIN.flatMap((name, i) => [el("dt", { lang: "en" }, name), el("dd", {}, turn.u.ap[i])]),
          el("dt", { lang: "en" }, "change"), el("dd", {}, (asked > 0 ? "+" : "") + asked))));
      parts.push(el("div", { class: "say user", lang }, turn.u.say));
    }
    return el("div", { class: "turn" }, ...parts);
  };
  const show = (id, focus) => {
    const d = byId.get(id);
    if (!d) return;
    open = id;
    // What was asked for, else what this dialogue has.
    const has = (key) => d.turns.some((t) => t.tk && t.tk[key]);
    colourBy = !wish || has(wish) ? wish : has("lp") ? "lp" : "";
    const far = reach(d), pair = data.improved.find((p) => p.includes(id));
    const other = pair && pair.find((p) => p !== id);
    const kinds = COLOURS.filter(([key]) => !key || has(key));
    const chips = [d.character, d.lang === "zh" ? "中文" : "English", d.stage, data.runs.length > 1 && data.runs[d.run].name, "user " + d.user, d.mode, d.reward === null ? "no reward" : "reward " + d.reward];
    const hasTokens = d.turns.some((t) => t.tk);
    $("pane").replaceChildren(
      el("button", { type: "button", class: "back", onclick: close }, "← list"),
      el("div", { class: "head" }, el("h3", {}, words(d.intention)), score(d), el("span", { class: "chip" }, d.end), el("span", { class: "who-says" }, d.profile)),
      el("div", { class: "chips" }, ...chips.filter(Boolean).map((c) => el("span", { class: "chip" }, c))),
      d.why ? el("p", { class: "bad" }, d.why) : "",
      el("div", { class: "controls" },
        el("button", { type: "button", onclick: () => step(-1), title: "previous (k)" }, "↑"), el("button", { type: "button", onclick: () => step(1), title: "next (j)" }, "↓"),
        el("button", { type: "button", id: "unfold", "aria-pressed": String(unfolded), onclick: unfold }, unfolded ? "close appraisals" : "open appraisals"),
        hasTokens ? el("label", {}, "tokens by ", (() => {
          const select = el("select", { id: "colour", onchange: (event) => { wish = event.target.value; show(id); } }, ...kinds.map(([key, name]) => el("option", { value: key }, name)));
          select.value = colourBy;
          return select;
        })()) : "",
        other && byId.has(other) ? el("button", { type: "button", onclick: () => show(other, true) }, pair[0] === id ? "the same person later" : "the same person earlier") : ""),
      meter(d),
      el("details", { class: "chain" }, el("summary", {}, "system prompt"), el("div", { class: "thought", lang: tongue[d.lang] }, d.system)),
      el("div", { class: "turn" }, el("div", { class: "who-says" }, "the person begins"), el("div", { class: "say user", lang: tongue[d.lang] }, d.opening)),
      ...d.turns.map((turn, t) => showTurn(d, turn, t, far)));
    $("browser").classList.add("open");
    for (const button of $("list").querySelectorAll("[aria-current]")) button.removeAttribute("aria-current");
    const button = $("list").querySelector(`[data-id="${CSS.escape(id)}"]`);
    if (button) { button.setAttribute("aria-current", "true"); button.scrollIntoView({ block: "nearest" }); }
    try { history.replaceState(null, "", "#dialogue=" + encodeURIComponent(id)); } catch { /* some viewers forbid it */ }
    if (focus) {
      const top = $("pane").getBoundingClientRect().top;
      if (top < 0 || top > innerHeight * .6) $("browser").scrollIntoView({ block: "start" });
      $("pane").focus({ preventScroll: true });
    }
  };
  const close = () => {
    $("browser").classList.remove("open");
    open = null;
    $("pane").replaceChildren(el("div", { class: "empty" }, "Choose a dialogue: click, or press j."));
    for (const button of $("list").querySelectorAll("[aria-current]")) button.removeAttribute("aria-current");
    try { history.replaceState(null, "", location.pathname + location.search); } catch { /* as above */ }
  };
  const step = (by) => {
    const at = shown.findIndex((d) => d.id === open);
    const next = at < 0 ? shown[by > 0 ? 0 : shown.length - 1] : shown[at + by];
    if (next) show(next.id, true);
  };
  const unfold = () => {
    unfolded = !unfolded;
    for (const details of $("pane").querySelectorAll(".turn details")) details.open = unfolded;
    const button = $("unfold");
    if (button) { button.textContent = unfolded ? "close appraisals" : "open appraisals"; button.setAttribute("aria-pressed", String(unfolded)); }
  };
  const nextColour = () => {
    const select = $("colour");
    if (!select) return;
    select.selectedIndex = (select.selectedIndex + 1) % select.options.length;
    wish = select.value;
    show(open);
  };

  // ---- keyboard
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName);
    if (event.key === "Escape" && !$("help").open) {
      if (event.target.id === "search") { event.target.value = ""; search(); event.target.blur(); } else if (open) close();
      return;
    }
    if (event.target.token && ["ArrowLeft", "ArrowRight"].includes(event.key)) {
      const next = event.target[event.key === "ArrowLeft" ? "previousElementSibling" : "nextElementSibling"];
      if (next && next.token) { next.focus(); event.preventDefault(); }
      return;
    }
    if (typing) return;
    const keys = {
      "/": () => $("search").focus(), j: () => step(1), k: () => step(-1), a: unfold, t: nextColour, d: toggleTheme, "?": () => $("help").showModal(),
    };
    if ($("list").contains(event.target)) { keys.ArrowDown = keys.j; keys.ArrowUp = keys.k; }
    if (keys[event.key]) { keys[event.key](); event.preventDefault(); }
  });
  $("theme").addEventListener("click", toggleTheme);
  $("help-open").addEventListener("click", () => $("help").showModal());
  let waiting;
  $("search").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(search, 90); });
  for (const id of [...filters.map(([id]) => id), "sort"]) $(id).addEventListener("change", search);

  // ---- all of it
  const render = () => {
    byId = new Map(data.dialogues.map((d, at) => { d.at = at; return [d.id, d]; }));
    $("sampled").textContent = data.notes.join(" ");
    $("dialogues").hidden = data.dialogues.length === 0;
    showRuns();
    fillFilters();
    showHighlights();
    search();
    showSections();
  };
  render();
  const asked = /^#dialogue=(.+)$/.exec(location.hash);
  if (asked && byId.has(decodeURIComponent(asked[1]))) show(decodeURIComponent(asked[1]), true); else close();
  if (!open && data.dialogues.length && matchMedia("(min-width: 821px)").matches) show([...data.improved.map((p) => p[1]), ...data.best, data.dialogues[0].id][0]);
  // Two frames on, the page is on the screen.
  requestAnimationFrame(() => setTimeout(startPlotly));

  // ---- live: ask the server that made this page whether the run went on
  if (data.live) {
    let stamp = null, busy = false;
    setInterval(async () => {
      if (busy || !$("live-on").checked) return;
      busy = true;
      try {
        const now = await (await fetch("stamp")).text();
        if (stamp !== null && now !== stamp) {
          data = await (await fetch("data.json")).json();
          const kept = open, top = scrollY;
          render();
          if (kept && byId.has(kept)) open = kept;
          scrollTo({ top, behavior: "instant" });
        }
        stamp = now;
        $("live").title = "asked a moment ago";
      } catch { $("live").title = "the server does not answer"; }
      busy = false;
    }, 2000);
  }
})();
