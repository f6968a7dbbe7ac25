// The order of search results: functions and classes of exactly this name, guides, the rest, pages about weft's inside.
var Scorer = {
  score: ([docname, title, anchor, descr, score, filename, kind]) => {
    if (/^(architecture|decisions|one-op|changelog|inside|guide\/numpy_names)$/.test(docname)) return score - 30;
    if (kind === "object") return /attribute|property/.test(descr || "") ? score - 30 : score;
    return /^(guide\/|tutorial|lazy|install|why|profiling)/.test(docname) ? score + 5 : score;
  },
  objNameMatch: 30,
  objPartialMatch: 6,
  objPrio: {0: 15, 1: 5, 2: -5},
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
