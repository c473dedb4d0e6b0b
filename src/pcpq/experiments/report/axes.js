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

  function recallTicks(low, high) {
    const dense = [0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995, 1];
    const usual = [0, 0.4, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 1];
    return several([dense, usual, [0, 0.6, 0.9, 0.98, 1]], low, Math.min(1, high));
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
    const fits = (list) => list.every((value, i) => !i || Math.abs(at(value) - at(list[i - 1])) >= gap);
    return { at, ticks: lists.find(fits) || lists[lists.length - 1] };
  }

  return { spread, written };
})();
