"use strict";
const place = id => document.getElementById(id);

// An element with attributes and children; strings become text, never markup.
function make(tag, attributes = {}, ...children) {
  const isSvg = ["svg", "path", "line", "rect", "circle", "text", "tspan", "title", "g"].includes(tag) || attributes.svg;
  const made = isSvg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  delete attributes.svg;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// Copies a text and tells so on the button. Pages from a disk have no clipboard in some browsers.
async function copy(text, button) {
  const words = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = make("textarea", {}, text);
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    button.focus();
  }
  button.textContent = "copied";
  setTimeout(() => { button.textContent = words; }, 1500);
}

function copyButton(words, text) {
  const button = make("button", {type: "button", title: text}, words);
  button.addEventListener("click", () => copy(text, button));
  return button;
}
