"""A Gateway of RL sessions in a cluster: it is a pod, its engines are pods, and its client is outside."""
