"""The browser plugin: pages opened, read and worked on by the agent, with the meaning that BrowserGym gives them.

extraction  marks the elements of a page and reads its trees, once a step
axtree      the accessibility tree: frames merged, cut to size, as text
snapshot    the snapshot of the document: what is known of each element, and the page as HTML
marks       the picture with the marks of the elements on it
"""
