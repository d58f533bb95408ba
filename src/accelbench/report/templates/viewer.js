"use strict";
// The viewer: click or Enter on a picture opens it; left or p, right or n, Escape or q.
const viewer = document.getElementById("viewer");
const pictures = [...document.querySelectorAll(".picture img")];
let current = 0;
function showPicture(index) {
  current = (index + pictures.length) % pictures.length;
  const picture = pictures[current];
  const image = viewer.querySelector("img");
  image.src = picture.src;
  image.alt = picture.alt;
  viewer.querySelector("figcaption").textContent = picture.alt;
  viewer.querySelector("p > span").textContent = `${current + 1} of ${pictures.length}`;
  if (!viewer.open) viewer.showModal();
}
function act(key) {
  if (key === "ArrowLeft" || key === "p") showPicture(current - 1);
  else if (key === "ArrowRight" || key === "n") showPicture(current + 1);
  else if (key === "q" || key === "Escape") viewer.close();
  else return false;
  return true;
}
pictures.forEach((picture, index) => picture.parentElement.addEventListener("click", () => showPicture(index)));
viewer.addEventListener("keydown", event => {
  if (act(event.key)) event.preventDefault();
});
if (location.hash === "#viewer" && pictures.length) showPicture(0);
for (const button of viewer.querySelectorAll("button")) {
  button.addEventListener("click", () => act(button.dataset.key));
}
