// A click on a picture that is shown smaller than it is opens it.
document.addEventListener("click", (event) => {
  const picture = event.target;
  if (picture.matches(".bd-article img") && !picture.closest("a") && picture.naturalWidth > picture.clientWidth) {
    window.location.href = picture.src;
  }
});
