// The violations of WCAG 2.2 A and AA that axe-core finds: rule, place and reason of each.
const done = arguments[0];
const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];
const line = (rule, node) => `${rule.id} ${node.target.join(" ")}: ${node.failureSummary.replace(/\s+/g, " ")} ${node.html.slice(0, 200)}`;
axe.run(document, { runOnly: { type: "tag", values: tags }, resultTypes: ["violations"] }).then(
  (found) => done(found.violations.flatMap((rule) => rule.nodes.map((node) => line(rule, node)))),
  (error) => done([`axe failed: ${error}`]),
);
