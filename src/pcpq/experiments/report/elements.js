"use strict";
// Elements of the page. Text from results is only ever set as textContent or as an attribute, never parsed as HTML.
const elements = (() => {
  const SVG = "http://www.w3.org/2000/svg";

  function fill(made, attributes, text) {
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    return made;
  }

  return {
    element: (name, attributes = {}, text = "") => fill(document.createElement(name), attributes, text),
    drawing: (name, attributes = {}, text = "") => fill(document.createElementNS(SVG, name), attributes, text),
  };
})();
