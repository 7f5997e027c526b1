"""REST questions: what they take, and what a call of kube-scheduler loses beside them."""
