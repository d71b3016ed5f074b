#!/bin/sh
# Makes three small repositories in the current folder, and tasks.jsonl with a task for each.
set -eu
rm -f tasks.jsonl
for name in apples pears plums; do
  mkdir -p "repositories/$name"
  cd "repositories/$name"
  printf 'def count(%s):\n    return len(%s) + 1\n' "$name" "$name" >count.py
  git init -q
  git add count.py
  git -c user.name=Example -c user.email=example@localhost commit -qm "Count $name"
  cd ../..
  printf '{"id": "%s", "task": "count.py counts one too many. Correct it.", "repo": "%s"}\n' \
    "$name" "$PWD/repositories/$name" >>tasks.jsonl
done
