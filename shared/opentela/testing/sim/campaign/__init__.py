"""Campaigns: thousands of seeds of one question, how soon the dead are found and who else is.

A *trial* is one seed: a mesh of 128 members, one kind of harm to some of those who live, and three
true deaths. What a trial saw is one row; tables and plots are made of rows.
"""
