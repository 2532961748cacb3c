// Elements from values. Names come from files of others, so they are only ever text.

const SVG = "http://www.w3.org/2000/svg";

export const find = (id) => document.getElementById(id);

// Attributes that are true stand without a value, null and false ones are left out.
export function html(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

export function setAttributes(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === false) element.removeAttribute(name);
    else element.setAttribute(name, value === true ? "" : value);
  }
}

// A name may be long and may run from right to left; neither may disturb what stands around it.
export function named(name) {
  return html("bdi", { class: "name", title: name }, name);
}

// An exact value for programs in the attribute, a rounded one to read.
export function exactly(value, text, attributes = {}) {
  return html("data", { value: value === null ? "null" : `${value}`, ...attributes }, text);
}

export function button(text, act, attributes = {}) {
  const made = html("button", { type: "button", ...attributes }, text);
  made.addEventListener("click", act);
  return made;
}

function filled(element, attributes, children) {
  setAttributes(element, attributes);
  element.append(...children.filter((child) => child !== null));
  return element;
}
