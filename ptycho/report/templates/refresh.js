/* A page of a run that goes on is loaded again after some seconds, unless somebody is reading further down. */
setInterval(() => { if (!document.hidden && window.scrollY < 200) location.reload(); }, 5000);
