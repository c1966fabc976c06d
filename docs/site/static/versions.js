// The switch between the versions whose sites lie beside this one: `versions` lists their pages.
document.addEventListener("DOMContentLoaded", () => {
  const root = new URL(document.documentElement.dataset.content_root, location.href);
  const here = root.pathname.split("/").at(-2);
  const page = location.pathname.slice(root.pathname.length) || "index.html";
  const list = document.createElement("script");
  list.src = new URL("../versions.js", root);
  list.onload = () => {
    const choice = document.querySelector(".versions select");
    for (const version of Object.keys(versions)) {
      choice.add(new Option(version, version, false, version === here));
    }
    choice.onchange = () => {
      const there = versions[choice.value].includes(page) ? page : "index.html";
      location.href = new URL(`../${choice.value}/${there}`, root);
    };
  };
  document.head.append(list);
});
