-- The counts of a log, by SQL alone: nothing of Topolog is used but the lines that its archive exports.
--
-- Each line is {"offset", "t", "e"}, and e is the event as JSON, in which what is as usual is left out.
-- A pod counts in (policy, domain) if it is bound or promised to a node whose label says so, the
-- policy's selector selects it, and it is neither ending nor finished.

CREATE TABLE lines (offset INTEGER PRIMARY KEY, event TEXT NOT NULL);
CREATE TABLE nodes (name TEXT PRIMARY KEY, node TEXT NOT NULL);
CREATE TABLE policies (key TEXT PRIMARY KEY, policy TEXT NOT NULL);
CREATE TABLE pods (uid TEXT PRIMARY KEY, pod TEXT NOT NULL, node TEXT NOT NULL);
CREATE TABLE promises (uid TEXT PRIMARY KEY, pod TEXT NOT NULL, node TEXT NOT NULL);

CREATE TRIGGER node_seen AFTER INSERT ON lines WHEN NEW.event ->> '$.type' = 'NodeSeen' BEGIN
  INSERT OR REPLACE INTO nodes VALUES (NEW.event ->> '$.node.name', NEW.event -> '$.node');
END;
CREATE TRIGGER node_gone AFTER INSERT ON lines WHEN NEW.event ->> '$.type' = 'NodeGone' BEGIN
  DELETE FROM nodes WHERE name = NEW.event ->> '$.name';
END;
CREATE TRIGGER policy_seen AFTER INSERT ON lines WHEN NEW.event ->> '$.type' = 'ObjectObserved' BEGIN
  INSERT OR REPLACE INTO policies VALUES (NEW.event ->> '$.identity', NEW.event -> '$.data');
END;
CREATE TRIGGER pod_seen AFTER INSERT ON lines WHEN NEW.event ->> '$.type' = 'PodSeen' BEGIN
  INSERT OR REPLACE INTO pods VALUES (
    NEW.event ->> '$.pod.uid', NEW.event -> '$.pod', coalesce(NEW.event ->> '$.pod.node', ''));
  DELETE FROM promises WHERE uid = NEW.event ->> '$.pod.uid' AND (
    coalesce(NEW.event ->> '$.pod.node', '') <> ''
    OR coalesce(NEW.event ->> '$.pod.phase', '') IN ('Succeeded', 'Failed'));
END;
CREATE TRIGGER pod_gone AFTER INSERT ON lines WHEN NEW.event ->> '$.type' = 'PodGone' BEGIN
  DELETE FROM pods WHERE uid = NEW.event ->> '$.uid';
  DELETE FROM promises WHERE uid = NEW.event ->> '$.uid';
END;
CREATE TRIGGER placed AFTER INSERT ON lines WHEN NEW.event ->> '$.type' = 'PlacementsCommitted' BEGIN
  INSERT OR REPLACE INTO promises
    SELECT value ->> '$.pod.uid', value -> '$.pod', value ->> '$.node' FROM json_each(NEW.event, '$.placements');
END;
CREATE TRIGGER released AFTER INSERT ON lines WHEN NEW.event ->> '$.type' = 'PlacementReleased' BEGIN
  DELETE FROM promises WHERE uid = NEW.event ->> '$.uid';
END;

CREATE VIEW located AS
  SELECT coalesce(p.pod, q.pod) AS pod, coalesce(nullif(p.node, ''), q.node) AS node
    FROM pods p LEFT JOIN promises q USING (uid)
  UNION ALL
  SELECT q.pod, q.node FROM promises q WHERE q.uid NOT IN (SELECT uid FROM pods);

CREATE VIEW counts AS
  SELECT policies.key || '|' || label.name || '=' || domain.value AS key, count(*) AS pods
    FROM located
    JOIN nodes ON nodes.name = located.node
    JOIN policies ON policy ->> '$.namespace' = located.pod ->> '$.namespace'
    JOIN (SELECT key, policy ->> '$.topology_key' AS name FROM policies) label USING (key)
    JOIN json_each(nodes.node, '$.labels') domain ON domain.key = label.name
   WHERE coalesce(located.pod ->> '$.phase', '') NOT IN ('Succeeded', 'Failed')
     AND NOT coalesce(located.pod ->> '$.terminating', 0)
     AND NOT EXISTS (
       SELECT 1 FROM json_each(policies.policy, '$.selector.labels') wanted
        WHERE NOT EXISTS (
          SELECT 1 FROM json_each(located.pod, '$.labels') has
           WHERE has.key = wanted.key AND has.value = wanted.value))
   GROUP BY policies.key, label.name, domain.value;
