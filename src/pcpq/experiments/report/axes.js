"use strict";
// Axes: which values a chart spans, where they lie, and which of them are written.
const axes = (() => {
  // `to` gives where a value lies, in no unit, `from` the value there; ticks are lists to choose from, densest first.
  const SCALES = {
    linear: { to: (value) => value, from: (place) => place, ticks: linearTicks },
    log: { to: Math.log10, from: (place) => 10 ** place, ticks: logTicks },
    // As wide from 0.9 to 0.99 as from 0 to 0.9; a little more than 1, so that 1 is not infinitely far.
    recall: {
      to: (value) => -Math.log10(1.002 - value),
      from: (place) => 1.002 - 10 ** -place,
      ticks: recallTicks,
    },
  };

  function linearTicks(low, high) {
    const rough = (high - low) / 5;
    const size = 10 ** Math.floor(Math.log10(rough));
    const step = size * [1, 2, 5, 10].find((factor) => factor * size >= rough);
    const found = [];
    // Numbers too large to count up from must not count forever.
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high && found.length < 20; i++) found.push(i * step || 0);
    return [found];
  }

  function logTicks(low, high) {
    const lists = [[1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 2, 5], [1]].map((factors) => {
      const found = [];
      for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power++)
        found.push(...factors.map((factor) => factor * 10 ** power));
      return found;
    });
    return several(lists, low, high);
  }

  // The most important come first; the others are written where they fit in between.
  function recallTicks(low, high) {
    const ranked = [0.9, 0.99, 0.5, 0.8, 0.95, 0.7, 0.98, 0.995, 0.6, 0, 1, 0.97, 0.85, 0.4, 0.2, 0.998];
    return several([ranked], low, Math.min(1, high));
  }

  function fitting(ranked, at, gap) {
    const kept = [];
    for (const value of ranked)
      if (kept.every((other) => Math.abs(at(value) - at(other)) >= gap)) kept.push(value);
    return kept;
  }

  function several(lists, low, high) {
    const inside = lists.map((list) => list.filter((value) => value >= low && value <= high));
    const enough = inside.filter((list) => list.length > 2);
    return enough.length ? enough : linearTicks(low, high);
  }

  function written(value) {
    return value.toLocaleString("en", { maximumSignificantDigits: 5 });
  }

  // An axis over the values given, from one pixel to another: { at: value to pixel, ticks: values }.
  function spread(axis, values, from, to, gap) {
    const scale = SCALES[axis.scale];
    const places = [...values, ...axis.reach].map(scale.to);
    let low = Math.min(...places);
    let high = Math.max(...places);
    const room = high > low ? 0.05 * (high - low) : Math.abs(low) * 0.1 || 0.1;
    low -= room;
    high += room;
    const at = (value) => from + ((scale.to(value) - low) / (high - low)) * (to - from);
    const lists = scale.ticks(scale.from(low), scale.from(high));
    const fits = (list) => fitting(list, at, gap).length === list.length;
    return { at, ticks: fitting(lists.find(fits) || lists[lists.length - 1], at, gap) };
  }

  return { spread, written };
})();
