"""How fast Topolog is: each row of `make bench` compares it with a peer that is measured in the same run."""
