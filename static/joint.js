// What a reader has opened or closed stays so while the page around it is kept current.
window.htmx.config.morphIgnore.push("open");
