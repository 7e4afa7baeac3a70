# SPDX-License-Identifier: Apache-2.0
"""The rules of the house that format and lint tools cannot see."""
